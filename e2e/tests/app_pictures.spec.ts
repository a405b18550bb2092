/** The app's pages on each screen, compared with pictures of them: one for each page, with all screens below each other. */

import { expect, type Browser, type Page } from "@playwright/test";

import { AppPage, test } from "../fixtures/app_page";
import { expectSheet, on, sameFigures, type Status, stillPicture } from "../fixtures/pictures";
import type { Screen } from "../fixtures/screen";

/** Each width, light and dark, and a phone with two device pixels per CSS pixel. */
const SCREENS: readonly Screen[] = [
  { width: 2560, height: 800, ratio: 1, colorScheme: "light" },
  { width: 1440, height: 700, ratio: 1, colorScheme: "dark" },
  { width: 1024, height: 600, ratio: 1, colorScheme: "light" },
  { width: 390, height: 844, ratio: 1, colorScheme: "light" },
  { width: 390, height: 700, ratio: 2, colorScheme: "dark" },
];

const names = (...records: readonly string[]): string =>
  records.map((record) => `SR:${record}`).join(",");

const LIST = names(
  "RING:CURRENT",
  "RING:LIFETIME",
  "RING:MODE",
  "RF:VOLTAGE:SET",
  "VAC:PRESSURE",
  "MAG:DIPOLE:TEMP",
  "CRYO:TEMP",
  "OP:MESSAGE",
  "MISSING",
);

const GROUPED = `%23 Ring,${names("RING:TUNE", "RING:INJECTIONS")},%23 Others,${LIST}`;

interface Shown {
  readonly name: string;
  readonly hash: string;
  /** Called before the page is opened. */
  readonly before?: (page: Page) => Promise<void>;
  readonly ready: (page: Page) => Promise<void>;
}

const PAGES: readonly Shown[] = [
  {
    name: "pv",
    hash: "#/pv/SR:RING:CURRENT",
    ready: async (page) => {
      await expect(page.locator('.pv-now [data-part="value"]')).toHaveText("262.35 mA");
      await expect(page.locator(".pvwire-strip canvas")).toBeVisible();
      await expect(page.locator('[data-part="rate"]')).toHaveText(/updates\/s$/);
    },
  },
  {
    name: "table",
    hash: `#/table?pvs=${GROUPED}`,
    ready: async (page) => {
      await expect(page.locator('[data-row="SR:MISSING"]')).toContainText("Not found");
      // States are counted a moment after the rows show them.
      await expect(page.getByRole("button", { name: "8 no alarm" })).toBeVisible();
      await expect(page.getByRole("button", { name: "1 not connected" })).toBeVisible();
    },
  },
  {
    name: "plots",
    hash: `#/plots?limits=1&pvs=${LIST}`,
    ready: async (page) => {
      await expect(page.locator(".pvwire-chart canvas")).toBeVisible();
      await expect(page.locator('[data-trace="SR:RING:CURRENT"]')).toContainText("262.35 mA");
      await expect(page.locator('[data-trace="SR:MISSING"]')).toContainText("Not found");
    },
  },
  {
    name: "alarms",
    hash: `#/alarms?pvs=${LIST}`,
    ready: async (page) => {
      await expect(page.locator('[data-alarm="SR:MISSING"]')).toContainText("Not found");
      await expect(page.locator('[data-alarm="SR:CRYO:TEMP"]')).toContainText("acknowledge");
      await expect(page.getByRole("button", { name: "1 not connected" })).toBeVisible();
    },
  },
  {
    name: "snapshots",
    hash: `#/snapshots?pvs=${LIST}`,
    ready: async (page) => {
      await expect(page.getByText("Without a value now: 1", { exact: true })).toBeVisible();
      await page.getByRole("button", { name: "Take 9 PVs now" }).click();
      await page.getByRole("textbox", { name: "Title" }).fill("Good beam");
      await page.getByRole("textbox", { name: "Title" }).blur();
      await expect(page.getByRole("list", { name: "Snapshots" })).toContainText("Good beam");
      await page.getByRole("button", { name: "Dry run" }).click();
      await expect(page.getByRole("button", { name: "8 same" })).toBeVisible();
    },
  },
  {
    name: "health",
    hash: "#/health",
    before: async (page) => {
      await page.route("**/status", async (route) => {
        const status = (await (await route.fetch()).json()) as Status;
        const more = {
          servers: [{ name: "192.0.2.20:5064", pvs: 1032, connected: 1028, bytes: 0 }],
          sources: [{ name: "ca", pvs: 1031, connected: 1027, updates: 0, bytes: 0 }],
          limits: {
            clients: 10_000,
            pvs: 1_000_000,
            memoryBytes: 4e9,
            subscriptionsPerClient: 20_000,
            putsPerSecond: 200,
          },
          memoryBytes: 120e6,
          operations: 0,
          mayDisconnect: true,
        };
        const figures = sameFigures(status, 61);
        // How long updates took is told with the seconds since the page was opened.
        await route.fulfill({ json: { ...figures, ...more, updateAge: undefined } });
      });
    },
    ready: async (page) => {
      // Rates are known with the second answer.
      const rate = page.getByRole("region", { name: "The relay" }).getByText("0.0");
      await expect(rate).toHaveCount(3);
      await expect(page.getByRole("region", { name: "This page" })).toContainText("open");
    },
  },
  {
    name: "displays",
    hash: "#/displays",
    ready: async (page) => {
      await expect(page.getByRole("link", { name: /vacuum/ })).toHaveCount(2);
    },
  },
];

const DISPLAY = `<display version="2.0.0"><name>A display</name><width>400</width><height>300</height></display>`;

const DISPLAYS = ["main", "rf/cavities", "vacuum/sector03", "vacuum/valves"];

test.use({
  still: true,
  displays: Object.fromEntries(DISPLAYS.map((name) => [`${name}.bob`, DISPLAY])),
});

async function picturesOn(
  browser: Browser,
  screen: Screen,
  address: string,
  { before, hash, ready }: Shown,
): Promise<Buffer> {
  let picture: Buffer | undefined;
  await on(browser, screen, async (page) => {
    await before?.(page);
    await new AppPage(page, address).open(hash);
    await ready(page);
    picture = await stillPicture(page, [page.locator("canvas")]);
    // A question for the status may be under way when the page is closed.
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });
  if (picture === undefined) throw new Error("the page has no picture");
  return picture;
}

test("each page of the app on each screen", async ({ app, browser }) => {
  test.setTimeout(600_000);
  for (const shown of PAGES) {
    const pictures: Buffer[] = [];
    for (const screen of SCREENS) {
      pictures.push(await picturesOn(browser, screen, app.url, shown));
    }
    await expectSheet(browser, `app-${shown.name}`, pictures);
  }
});
