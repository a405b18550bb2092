/** Each widget in each state, compared with pictures of them (e2e/pictures). */

import type { Page } from "@playwright/test";

import { expectPicture, on, showAll, SCREENS } from "../fixtures/pictures";
import { expect } from "../fixtures/test";
import { condition, open, setAll, showing, SHOWING, test } from "../fixtures/widgets_page";

/** The page's clock is stopped: times are the same in each run, and the time axis doesn't move. */
const NOW = "2026-03-01T12:34:56.789Z";

async function openStill(page: Page, url: string): Promise<void> {
  await page.clock.setFixedTime(NOW);
  await open(page, url);
  await page.evaluate(async (begin) => {
    // A curve of ten seconds after the first value; each point is delivered in a separate flush.
    for (let at = 0.5; at <= 9; at += 0.5) {
      const value = 42.5 + 20 * Math.sin(at);
      window.relay?.set("STRIP", { value, timeMs: begin + 1000 * at });
      await new Promise((resolve) => requestAnimationFrame(resolve));
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
  }, Date.parse(NOW));
  await expect(showing(page, "STRIP").locator("canvas")).toBeVisible();
  await expect(showing(page, "CAMERA").locator("canvas")).toBeVisible();
  await expect(condition(page, "NOBODY")).toHaveText("Not found · still searching");
  await showAll(page);
}

for (const [where, screen] of Object.entries(SCREENS)) {
  test(`widgets on a ${where}`, async ({ browser, url }) => {
    await on(browser, screen, async (page) => {
      await openStill(page, url);
      await expectPicture(page, `widgets-${where}`);
    });
  });
}

const DESK = { ...SCREENS.desk, width: 1024 };

test("widgets in alarm and with every fault of access or connection", async ({ browser, url }) => {
  await on(browser, DESK, async (page) => {
    await openStill(page, url);
    const each = async (name: string, words: RegExp | string): Promise<void> => {
      for (const pv of SHOWING) await expect(condition(page, pv)).toHaveText(words);
      await expectPicture(page, `widgets-${name}`);
    };
    await setAll(page, { severity: "MINOR", alarmStatus: 4 });
    await each("minor", "MINOR HIGH");
    await setAll(page, { severity: "MAJOR", alarmStatus: 3 });
    await page.emulateMedia({ colorScheme: "dark" });
    await each("major", "MAJOR HIHI");
    await setAll(page, { severity: "INVALID", alarmStatus: 14 });
    await page.emulateMedia({ colorScheme: "light" });
    await each("invalid", "INVALID LINK");
    await setAll(page, { severity: "NO_ALARM", alarmStatus: 0, unresponsive: true });
    await each("no-news", /^No response since/);
    await setAll(page, { unresponsive: false, state: "disconnected" });
    await page.emulateMedia({ colorScheme: "dark" });
    await each("disconnected", /^Disconnected/);
    await setAll(page, { state: "connected", mutable: false });
    await page.emulateMedia({ colorScheme: "light" });
    await each("no-access", "No alarm");
    await setAll(page, { readable: false });
    await each("no-read-access", "No read access");
  });
});
