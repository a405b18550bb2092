/**
 * The app's pages and dialogs on each screen, and by axe: a contact sheet of all, and for some a sheet of full pictures.
 * A second contact sheet has pages during faults.
 */

import path from "node:path";

import { expect, type Browser, type Page } from "@playwright/test";

import { Child } from "../../testbed/ts/child";
import { privateEpicsNetwork } from "../../testbed/ts/epics";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { AppPage, test } from "../fixtures/app_page";
import {
  type Contact,
  expectContactSheet,
  expectSheet,
  holdStill,
  on,
  painted,
  pictureOf,
  sameFigures,
  type Status,
  stillPicture,
} from "../fixtures/pictures";
import { expectAccessible, expectNoFaults, nameOf, type Screen } from "../fixtures/screen";

const RATIOS = [1, 2] as const;

/** Each width, light and dark. */
const screensOf = (ratio: number): readonly Screen[] =>
  [
    [2560, 800],
    [1440, 700],
    [1024, 600],
    // A phone with twice as many pixels shows less of a page.
    [390, ratio === 1 ? 844 : 700],
  ].flatMap(([width = 0, height = 0]) =>
    (["light", "dark"] as const).map((colorScheme) => ({ width, height, ratio, colorScheme })),
  );

const SCREENS = RATIOS.flatMap(screensOf);

/** The screens of full pictures. */
const FULL = [
  "2560 px, ratio 1, light",
  "1440 px, ratio 1, dark",
  "1024 px, ratio 1, light",
  "390 px, ratio 1, light",
  "390 px, ratio 2, dark",
];

/** Height of a line of the contact sheet. */
const LINE = 844;

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
  /** Whether a sheet has full pictures of it, too. */
  readonly isFull?: boolean;
  /** Whether it has a curve or an image that stands still. */
  readonly isDrawn?: boolean;
  /** Without one it follows on the page before. */
  readonly hash?: string;
  /** Called before the page is opened. */
  readonly before?: (page: Page) => Promise<void>;
  readonly ready: (page: Page) => Promise<void>;
}

const PAGES: readonly Shown[] = [
  {
    name: "pv",
    isFull: true,
    hash: "#/pv/SR:RING:CURRENT",
    ready: async (page) => {
      await expect(page.locator('.pv-now [data-part="value"]')).toHaveText("262.35 mA");
      await expect(page.locator(".pvwire-strip canvas")).toBeVisible();
      await expect(page.locator('[data-part="rate"]')).toHaveText(/updates\/s$/);
    },
  },
  {
    name: "table",
    isFull: true,
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
    isFull: true,
    hash: `#/plots?limits=1&pvs=${LIST}`,
    ready: async (page) => {
      await expect(page.locator(".pvwire-chart canvas")).toBeVisible();
      await expect(page.locator('[data-trace="SR:RING:CURRENT"]')).toContainText("262.35 mA");
      await expect(page.locator('[data-trace="SR:MISSING"]')).toContainText("Not found");
    },
  },
  {
    name: "alarms",
    isFull: true,
    hash: `#/alarms?pvs=${LIST}`,
    ready: async (page) => {
      await expect(page.locator('[data-alarm="SR:MISSING"]')).toContainText("Not found");
      await expect(page.locator('[data-alarm="SR:CRYO:TEMP"]')).toContainText("acknowledge");
      await expect(page.getByRole("button", { name: "1 not connected" })).toBeVisible();
    },
  },
  {
    name: "snapshots",
    isFull: true,
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
    name: "the question before a restore",
    ready: async (page) => {
      await page.getByRole("button", { name: /^Restore / }).click();
      await expect(page.getByRole("dialog")).toBeVisible();
    },
  },
  {
    name: "health",
    isFull: true,
    hash: "#/health",
    before: async (page) => {
      await page.route("**/status", async (route) => {
        const status = (await (await route.fetch()).json()) as Status;
        const more = {
          servers: [{ name: "192.0.2.20:5064", pvs: 1032, connected: 1028, bytes: 0 }],
          sources: [{ name: "ca", pvs: 1031, connected: 1027, updates: 0, bytes: 0 }],
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
  {
    name: "display",
    hash: "#/display/main.bob?macro=P=SR",
    ready: async (page) => {
      await expect(page.locator('[data-name="current"]')).toContainText("262.35 mA");
      await expect(page.locator('[data-name="missing"]')).toHaveAttribute("data-state", "notFound");
    },
  },
  {
    name: "a PV that the operator confirms",
    hash: "#/pv/SR:OP:MESSAGE",
    ready: async (page) => {
      const { input, value } = new AppPage(page, "");
      await expect(value).toHaveText("Beam available to users");
      await input.fill("Beam available until noon");
      await input.press("Enter");
      await expect(page.getByRole("alertdialog")).toBeVisible();
    },
  },
  {
    name: "a waveform",
    isDrawn: true,
    hash: "#/pv/SR:XY:Y",
    ready: async (page) => {
      await expect(page.locator(".pvwire-plot canvas")).toBeVisible();
    },
  },
  {
    name: "an image",
    isDrawn: true,
    hash: "#/pv/SR:CAMERA?columns=12&at=3,2&region=2,1,7,5",
    ready: async (page) => {
      await expect(page.getByRole("img", { name: /image of 7 × 5 pixels/ })).toBeVisible();
      await expect(page.locator('[data-part="region"]')).toContainText("Region of 7 × 5 pixels");
      await expect(page.locator('[data-part="pixel"]')).toHaveText("Column 3, row 2: 27");
    },
  },
  {
    name: "a table of pvAccess",
    hash: "#/pv/pva://SR:TABLE",
    ready: async (page) => {
      await expect(page.getByRole("cell", { name: "Q1" })).toBeVisible();
      await expect(page.locator(".pv-tree")).toContainText("magnet");
    },
  },
  {
    name: "a write from the table",
    hash: `#/table?pvs=${LIST}`,
    ready: async (page) => {
      const row = page.locator('[data-row="SR:RF:VOLTAGE:SET"]');
      await row.getByRole("button", { name: "Write" }).click({ force: true });
      await expect(page.getByRole("dialog")).toContainText("0 to 3 MV");
      await expect(page.getByRole("button", { name: "1 not connected" })).toBeVisible();
    },
  },
  {
    name: "kiosk",
    hash: `#/table?kiosk=1&pvs=${GROUPED}`,
    ready: async (page) => {
      await expect(page.locator('[data-row="SR:MISSING"]')).toContainText("Not found");
      await expect(page.getByRole("button", { name: "8 no alarm" })).toBeVisible();
    },
  },
  {
    name: "XY",
    isDrawn: true,
    hash: "#/plots?last=60&x=SR:XY:X&pvs=SR:XY:X,SR:XY:Y",
    ready: async (page) => {
      await expect(page.getByRole("img", { name: /: 4 points/ })).toBeVisible();
    },
  },
  {
    name: "welcome",
    hash: "#/",
    ready: async (page) => {
      await expect(page.getByRole("heading", { name: "Shown last" })).toBeVisible();
    },
  },
  {
    name: "keys",
    hash: "#/",
    ready: async (page) => {
      await page.getByRole("button", { name: "Keys" }).click();
      await expect(page.getByRole("dialog", { name: "Keys" })).toBeVisible();
    },
  },
];

const widget = (type: string, name: string, y: number, more: string): string =>
  `<widget type="${type}" version="2.0.0"><name>${name}</name><x>10</x><y>${String(y)}</y>
  <width>180</width><height>24</height>${more}</widget>`;

const DISPLAY = `<display version="2.0.0"><name>Ring</name><width>400</width><height>300</height>
  ${widget("label", "title", 10, "<text>Ring of $(P)</text>")}
  ${widget("textupdate", "current", 50, "<pv_name>$(P):RING:CURRENT</pv_name>")}
  ${widget("textentry", "voltage", 90, "<pv_name>$(P):RF:VOLTAGE:SET</pv_name>")}
  ${widget("textupdate", "missing", 130, "<pv_name>$(P):MISSING</pv_name>")}
  ${widget("no_type", "unknown", 170, "")}</display>`;

const DISPLAYS = ["main", "rf/cavities", "vacuum/sector03", "vacuum/valves"];

const array = (name: string, type: string, values: readonly number[], units: string): string =>
  `record(waveform, "$(P):${name}") {
    field(FTVL, "${type}") field(NELM, "${String(values.length)}") field(EGU, "${units}") field(INP, [${values.join(", ")}])
  }
`;

test.use({
  still: true,
  displays: Object.fromEntries(DISPLAYS.map((name) => [`${name}.bob`, DISPLAY])),
  moreRecords:
    array("CAMERA", "SHORT", [...Array(96).keys()], "") +
    array("XY:X", "DOUBLE", [1, 2, 3, 4], "mm") +
    array("XY:Y", "DOUBLE", [10, 20, 30, 45], "V"),
  relayFlags: ["--confirm-put=*:OP:MESSAGE"],
});

/** Charts over time, which are drawn as updates arrive. */
const movingOf = (page: Page) => [page.locator(":is(.pvwire-strip, .pvwire-chart) canvas")];

async function show(page: Page, screen: Screen): Promise<void> {
  await page.emulateMedia({ colorScheme: screen.colorScheme });
  await page.setViewportSize(screen);
  await painted(page);
}

async function open(page: Page, address: string, shown: Shown): Promise<void> {
  await shown.before?.(page);
  if (shown.hash !== undefined) {
    // All of the page is loaded again.
    await page.goto("about:blank");
    await new AppPage(page, address).open(shown.hash);
  }
  await shown.ready(page);
  // What is known of a PV a moment after its value.
  if (shown.hash?.startsWith("#/pv/") === true) {
    const facts = page.locator(".pv-facts");
    await expect(facts.locator('[data-part="rate"]')).toHaveText(/updates\/s$/);
    await expect(facts).toContainText("Server");
  }
  await holdStill(page);
}

/** Where the pictures of one of these screens are on the contact sheet: their left edge. */
const columnOf = (screen: Screen, screens: readonly Screen[] = SCREENS): number =>
  screens
    .slice(
      0,
      screens.findIndex((each) => nameOf(each) === nameOf(screen)),
    )
    .reduce((sum, { width }) => sum + width, 0);

/** Every page and dialog on every screen; axe reads each in light and dark colours. */
async function pictures(browser: Browser, address: string): Promise<Contact[]> {
  const contacts: Contact[] = [];
  const full = new Map<string, Map<string, Buffer>>();
  for (const ratio of RATIOS) {
    const [first, ...others] = screensOf(ratio);
    if (first === undefined) throw new Error("there is no screen");
    await on(browser, first, async (page) => {
      for (const [line, shown] of PAGES.entries()) {
        await show(page, first);
        await open(page, address, shown);
        for (const screen of [first, ...others]) {
          await show(page, screen);
          const isFull = shown.isFull === true && FULL.includes(nameOf(screen));
          // A curve is drawn again for each width.
          const isStill = isFull || shown.isDrawn === true || screen.width === 390;
          const picture = await (isStill ? stillPicture : pictureOf)(page, movingOf(page));
          contacts.push({ ...screen, x: columnOf(screen), y: LINE * line, picture });
          if (isFull) {
            const pictures = full.get(shown.name) ?? new Map<string, Buffer>();
            full.set(shown.name, pictures.set(nameOf(screen), picture));
          }
          if (ratio === 1 && screen.width === 1440) {
            await expectAccessible(page, { onlyColours: screen.colorScheme === "dark" });
          }
        }
        // A question for the status may be under way when another page is opened.
        await page.unrouteAll({ behavior: "ignoreErrors" });
      }
    });
  }
  for (const [name, pictures] of full) {
    const all = FULL.map((screen) => pictures.get(screen) ?? Buffer.alloc(0));
    await expectSheet(browser, `app-${name}`, all);
  }
  return contacts;
}

test("each page and dialog of the app on each screen, and read by axe", async ({
  app,
  browser,
  network,
  prefix,
}) => {
  test.setTimeout(600_000);
  const server = Child.start({
    what: "the pvAccess server",
    command: PYTHON,
    args: ["-u", path.join(ROOT, "e2e/fixtures/structures.py"), prefix],
    env: network.env,
  });
  await server.waitForOutput(/serving/);
  await expectContactSheet(browser, "app-screens", await pictures(browser, app.url));
  await server.kill();
});

interface Fault {
  /** The pages that are open. */
  readonly begin: () => Promise<void> | void;
  /** All is as before. */
  readonly end: () => Promise<void> | void;
  /** What each page says of the PV that is written. */
  readonly words: RegExp;
}

const WRITTEN = "SR:RF:VOLTAGE:SET";

/** An IOC or a relay that is back is searched for at intervals. */
const BACK = { timeout: 45_000 };

/** Pages of what is written, with the element of its severity and that of the words. */
const IN_FAULT: readonly (readonly [hash: string, whole: string, part?: string])[] = [
  [`#/pv/${WRITTEN}`, ".pv-now", '.pv-now [data-part="condition"]'],
  [
    `#/table?pvs=${GROUPED}`,
    `[data-row="${WRITTEN}"]`,
    `[data-row="${WRITTEN}"] [data-column="state"]`,
  ],
  ["#/display/main.bob?macro=P=SR", '[data-name="voltage"]'],
  [
    `#/plots?limits=1&pvs=${LIST}`,
    `[data-trace="${WRITTEN}"]`,
    `[data-trace="${WRITTEN}"] [data-column="state"]`,
  ],
  [`#/alarms?pvs=${LIST}`, `[data-alarm="${WRITTEN}"]`, `[data-alarm="${WRITTEN}"] .alarm-text`],
];

/** A hung IOC stays without response while the pictures are made, and isn't disconnected. */
const patient = test.extend<object>({
  // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
  network: async ({}, provide) => {
    const { env } = await privateEpicsNetwork();
    await provide({ env: { ...env, EPICS_CA_CONN_TMO: "120" } });
  },
});

patient("pages of the app during faults", async ({ app, browser, ioc, relay }) => {
  test.setTimeout(600_000);
  const screens = screensOf(1).filter(({ width }) => width === 390 || width === 1440);
  const [first, ...others] = screens;
  if (first === undefined) throw new Error("there is no screen");
  const faults: readonly Fault[] = [
    {
      begin: () => {
        ioc.hang();
      },
      end: () => {
        ioc.resume();
      },
      words: /No response since/,
    },
    {
      begin: async () => {
        await ioc.put(`RF:VOLTAGE:SET.ASG`, "HIDDEN");
        await ioc.put(`RING:CURRENT.ASG`, "HIDDEN");
      },
      end: () => ioc.restart(),
      words: /No read access/i,
    },
    { begin: () => ioc.kill(), end: () => ioc.restart(), words: /Disconnected/i },
    { begin: () => relay.kill(), end: () => relay.restart(), words: /Relay lost/i },
  ];
  const contacts: Contact[] = [];
  for (const [turn, { begin, end, words }] of faults.entries()) {
    await on(browser, first, async (opened) => {
      const pages: Page[] = [];
      // In an alarm, so that the list of alarms has it.
      await ioc.put("RF:VOLTAGE:SET", 2.5);
      for (const [hash, whole] of IN_FAULT) {
        const page = pages.length === 0 ? opened : await opened.context().newPage();
        await new AppPage(page, app.url).open(hash);
        await expect(page.locator(whole)).toHaveAttribute("data-severity", /MINOR|MAJOR/, BACK);
        pages.push(page);
      }
      await begin();
      for (const [at, page] of pages.entries()) {
        const [, whole, part] = IN_FAULT[at] ?? ["", ""];
        await expect(page.locator(whole)).not.toHaveAttribute("data-severity", BACK);
        if (part !== undefined) await expect(page.locator(part)).toHaveText(words, BACK);
        await holdStill(page);
        for (const screen of [first, ...others]) {
          await show(page, screen);
          const picture = await stillPicture(page, movingOf(page));
          const y = LINE * (IN_FAULT.length * turn + at);
          contacts.push({ ...screen, x: columnOf(screen, screens), y, picture });
        }
        await expectNoFaults(page, `${whole} ${String(words)}`);
      }
      await end();
    });
  }
  await expectContactSheet(browser, "app-faults", contacts);
});
