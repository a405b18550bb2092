/** The demo's pages, the widgets and the relay's own page, compared with pictures of them (e2e/pictures). */

import type { Browser, Locator, Page } from "@playwright/test";

import {
  expectPicture,
  on,
  sameFigures,
  SCREENS,
  showAll,
  type Status,
} from "../fixtures/pictures";
import type { Screen } from "../fixtures/screen";
import { expect, test } from "../fixtures/test";

/** The size of a canvas is compared; its content moves. */
const canvases = (page: Page): Locator[] => [page.locator("canvas")];

test.describe("the demo", () => {
  test.use({ still: true });

  async function openMachine(page: Page, url: string): Promise<void> {
    await page.goto(`${url}?prefix=SR`);
    await expect(page.locator('.cell[data-state="connected"]')).toHaveCount(1000);
    await expect(page.locator('[data-pv="SR:NOT_THERE"]')).toHaveAttribute(
      "data-state",
      "notFound",
    );
    await expect(page.locator(".pvwire-strip canvas")).toHaveCount(2);
    await showAll(page);
  }

  async function goTo(page: Page, screen: Screen, title: string, ready: string): Promise<void> {
    await page.setViewportSize(screen);
    await page.getByRole("link", { name: title }).click();
    await expect(page.locator(ready).first()).toBeVisible();
  }

  /**
   * The other pages, their screens, and how each is opened; the result is the locator of its moving
   * parts.
   */
  const PAGES: readonly (readonly [
    name: string,
    on: readonly (keyof typeof SCREENS)[],
    show: (page: Page, screen: Screen) => Promise<Locator[]>,
  ])[] = [
    [
      "beamline",
      ["phone", "tablet", "wall"],
      async (page, screen) => {
        await goTo(page, screen, "Beamline", ".pvwire-image canvas:visible");
        await expect(page.locator(".uplot canvas")).toHaveCount(3);
        await showAll(page);
        return canvases(page);
      },
    ],
    [
      "wall",
      ["phone", "desk"],
      async (page, screen) => {
        await goTo(page, screen, "Wall", ".wall canvas");
        await expect(page.locator('[data-summary="wall"]')).toContainText("5,000 of 5,000");
        return canvases(page);
      },
    ],
    [
      "console",
      ["phone", "tablet"],
      async (page, screen) => {
        await goTo(page, screen, "Console", ".graphiql-query-editor .CodeMirror");
        await page.getByRole("button", { name: "Read" }).click();
        await page.getByRole("button", { name: /^Execute query/ }).click();
        await expect(page.locator(".result-window")).toContainText("data");
        return [];
      },
    ],
    [
      "health",
      ["desk", "wall"],
      async (page, screen) => {
        await goTo(page, screen, "Health", ".health");
        await expect(page.getByLabel("Relay", { exact: true })).toContainText("Clients");
        await expect(page.getByRole("list", { name: "PVs of this page" })).toHaveText(
          "1 not found",
        );
        await showAll(page);
        return [];
      },
    ],
  ];

  // Two tests, one for each worker.
  for (const places of [
    ["phone", "desk"],
    ["tablet", "wall"],
  ] as const) {
    test(`on a ${places.join(" and a ")}`, async ({ browser, ioc, pageUrl }) => {
      expect(ioc.prefix).toBe("SR");
      for (const where of places) {
        const screen = SCREENS[where];
        await on(browser, screen, async (page) => {
          await openMachine(page, pageUrl);
          await expectPicture(page, `machine-${where}`, canvases(page));
          for (const [name, screens, show] of PAGES) {
            if (!screens.includes(where)) continue;
            await expectPicture(page, `${name}-${where}`, await show(page, screen));
          }
        });
      }
    });
  }

  test("without a response, without its IOC, without the relay", async ({
    browser,
    ioc,
    pageUrl,
    relay,
  }) => {
    await on(browser, SCREENS.desk, async (page) => {
      await openMachine(page, pageUrl);
      await page.setViewportSize(SCREENS.desk);
      const troubles = page.getByRole("list", { name: "PVs of this page" });
      ioc.hang();
      await expect(troubles).toContainText("1,024 without response");
      await expectPicture(page, "machine-no-news", canvases(page));
      await ioc.kill();
      await expect(troubles).toContainText("1,024 disconnected");
      await expectPicture(page, "machine-ioc-gone", canvases(page));
      await page.emulateMedia({ colorScheme: "dark" });
      await relay.kill();
      await expect(page.locator("[data-banner]")).toBeVisible();
      await expect(page.locator('.cell[data-state="relayLost"]')).toHaveCount(1000);
      await expectPicture(page, "machine-relay-lost", canvases(page));
    });
  });
});

const SECONDS = [61, 62];

test.describe("the relay's own page", () => {
  /** What the page does every second. */
  async function askNow(page: Page): Promise<void> {
    await page.evaluate("void refresh()");
  }

  async function openStatus(page: Page, port: number): Promise<void> {
    // Rates are computed from two answers; there is no third one.
    await page.addInitScript(() => {
      let seconds = 0;
      performance.now = () => 1000 * seconds++;
    });
    let calls = 0;
    await page.route("**/status", async (route) => {
      const at = SECONDS[calls];
      calls += 1;
      if (at === undefined) return;
      const status = (await (await route.fetch()).json()) as Status;
      await route.fulfill({ json: sameFigures(status, at) });
    });
    await page.goto(`http://127.0.0.1:${String(port)}/`);
    await expect(page.locator("#pvs tr")).toHaveCount(6);
    await askNow(page);
    await expect(page.locator("#now")).toContainText("10,250");
    await showAll(page);
  }

  async function everyScreen(browser: Browser, port: number): Promise<void> {
    for (const [where, screen] of Object.entries(SCREENS)) {
      await on(browser, screen, async (page) => {
        await openStatus(page, port);
        await expectPicture(page, `relay-${where}`);
      });
    }
  }

  test("on every screen, and when the relay is gone", async ({ browser, relay }) => {
    await everyScreen(browser, relay.port);
    await on(browser, SCREENS.desk, async (page) => {
      await openStatus(page, relay.port);
      await page.route("**/status", (route) => route.abort());
      await askNow(page);
      await expect(page.getByRole("alert")).toBeVisible();
      await expectPicture(page, "relay-gone");
    });
  });
});
