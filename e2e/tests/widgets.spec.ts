/**
 * Each widget in each state, in light and dark, its accessibility, that it is complete and legible on every screen, and
 * pictures of it (e2e/pictures). The relay of the page is a fake one that the test commands.
 */

import { expect, test as base, type Locator, type Page } from "@playwright/test";
import type { FakePv } from "pvwire/testing";

import { DEADLINE_MS } from "../../testbed/ts/deadline";
import { servePage } from "../fixtures/built_pages";
import { expectPicture, on, showAll, SCREENS } from "../fixtures/pictures";
import {
  expectAccessible,
  expectNoFaults,
  nameOf,
  RATIOS,
  type Screen,
  screenOf,
  screensOf,
} from "../fixtures/screen";

/** Names of the PVs, and of the widgets that are read-only. */
const PVS = [
  "TEMP",
  "SET",
  "METER",
  "STRIP",
  "MODE",
  "MANY",
  "MESSAGE",
  "LED",
  "BITS",
  "WAVE",
  "CAMERA",
  "TABLE",
];
const SHOWING = ["TEMP", "METER", "STRIP", "LED", "BITS", "WAVE", "CAMERA", "TABLE"];

const test = base.extend<object, { url: string }>({
  url: [
    // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
    async ({}, provide) => {
      const { close, url } = await servePage("widgets");
      await provide(url);
      await close();
    },
    { scope: "worker" },
  ],
});

const showing = (page: Page, pv: string): Locator => page.locator(`[data-pv="${pv}"]`);

const condition = (page: Page, pv: string): Locator =>
  showing(page, pv).locator('[data-part="condition"]');

async function open(page: Page, url: string): Promise<void> {
  await page.goto(url);
  for (const pv of SHOWING) await expect(condition(page, pv)).toContainText("No alarm");
  await expect(showing(page, "WAVE").locator("canvas")).toBeVisible();
}

async function setAll(
  page: Page,
  change: Pick<
    FakePv,
    "alarmStatus" | "mutable" | "readable" | "severity" | "state" | "unresponsive"
  >,
): Promise<void> {
  await page.evaluate(
    ([pvs, change]) => {
      for (const pv of pvs) window.relay?.set(pv, change);
    },
    [PVS, change] as const,
  );
}

const SETTING = ["Set point", "Slider", "Text", "Few choices", "Many choices"];

const setting = (page: Page, label: string): Locator =>
  page.getByRole("group", { name: label, exact: true }).first();

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme, viewport: { width: 1300, height: 1000 } });

    test("all is well: values, words, roles", async ({ page, url }) => {
      await open(page, url);
      await expect(showing(page, "TEMP").locator('[data-part="value"]')).toHaveText("42.5 °C");
      const meter = page.getByRole("meter", { name: "Meter" });
      await expect(meter).toHaveAttribute("aria-valuenow", "42.5");
      await expect(showing(page, "BITS").getByRole("listitem").nth(1)).toHaveText("Pump on");
      await expect(showing(page, "LED").locator('[data-part="value"]')).toHaveText("On");
      await expect(
        page.getByRole("img", { name: "Waveform: curve of 5,000 elements" }),
      ).toBeVisible();
      await expect(page.getByRole("img", { name: "Image: image of 64 × 48 pixels" })).toBeVisible();
      await expect(page.getByRole("columnheader")).toHaveText(["Magnet", "Current", "Turns"]);
      await expect(page.getByRole("cell", { name: "9007199254740993" })).toBeVisible();
      await expect(
        setting(page, "Few choices").getByRole("button", { name: "On" }),
      ).toHaveAttribute("aria-pressed", "true");
      await expect(condition(page, "NOBODY")).toHaveText("Not found · still searching");
      await expectAccessible(page);
    });

    test("alarms of each severity", async ({ page, url }) => {
      await open(page, url);
      for (const [severity, alarmStatus, words] of [
        ["MINOR", 4, "MINOR HIGH"],
        ["MAJOR", 3, "MAJOR HIHI"],
        ["INVALID", 14, "INVALID LINK"],
      ] as const) {
        await setAll(page, { severity, alarmStatus });
        for (const pv of SHOWING) {
          await expect(condition(page, pv)).toHaveText(words);
          await expect(showing(page, pv)).toHaveAttribute("data-severity", severity);
        }
        await expectAccessible(page);
      }
    });

    test("gone: the last value stays, marked as old, and can't be set", async ({ page, url }) => {
      await open(page, url);
      await setAll(page, { state: "disconnected" });
      for (const pv of SHOWING) {
        await expect(condition(page, pv)).toHaveText(/^Disconnected · old since \d\d:\d\d:\d\d$/);
        await expect(showing(page, pv)).not.toHaveAttribute("data-severity");
      }
      for (const label of SETTING) {
        const hint = setting(page, label).locator('[data-part="hint"]');
        await expect(hint).toHaveText("Disconnected: nothing can be sent");
      }
      await expect(showing(page, "TEMP").locator('[data-part="value"]')).toHaveText("42.5 °C");
      await expectAccessible(page);

      await page.evaluate(() => window.relay?.lose());
      for (const pv of SHOWING) {
        await expect(condition(page, pv)).toHaveText(/^Relay lost · old since \d\d:\d\d:\d\d$/);
      }
      for (const label of SETTING) {
        const hint = setting(page, label).locator('[data-part="hint"]');
        await expect(hint).toHaveText("Relay lost: nothing can be sent");
      }
      await expectAccessible(page);
    });

    test("stale: connected, and long without an update", async ({ page, url }) => {
      await open(page, `${url}?stale`);
      for (const pv of SHOWING) {
        await expect(condition(page, pv)).toHaveText(
          /^Stale: no update since \d\d:\d\d:\d\d · No alarm$/,
        );
      }
      for (const label of SETTING) {
        const hint = setting(page, label).locator('[data-part="hint"]');
        await expect(hint).toContainText(/^Stale: no update since \d\d:\d\d:\d\d/);
        // A stale value can still be correct, so the PV can be set.
        await expect(setting(page, label)).toHaveAttribute("data-writable", "true");
      }
      await expectAccessible(page);
    });

    test("a put by the keyboard alone: refused, under way, written", async ({ page, url }) => {
      await open(page, url);
      await page.evaluate(() => {
        if (window.relay !== undefined) window.relay.onPut = () => "the coil is locked";
      });
      const set = setting(page, "Set point");
      await set.getByRole("textbox").fill("50");
      await expect(set).toHaveAttribute("data-phase", "unsent");
      await page.keyboard.press("Enter");
      await expect(set.getByRole("status")).toHaveText("Refused: the coil is locked");
      await expectAccessible(page);
      await page.evaluate(() => {
        if (window.relay !== undefined) window.relay.onPut = undefined;
      });
      await page.keyboard.press("Enter");
      await expect(set.getByRole("status")).toContainText("Written");
      await expect(set.getByRole("textbox")).toHaveValue("50.0");

      await setting(page, "Few choices").getByRole("button", { name: "Off" }).focus();
      await page.keyboard.press("Enter");
      await expect(
        setting(page, "Few choices").getByRole("button", { name: "Off" }),
      ).toHaveAttribute("aria-pressed", "true");
      await setAll(page, { mutable: false });
      await expect(set.locator('[data-part="hint"]')).toHaveText("The IOC gives no write access");
      await expectAccessible(page);
    });
  });
}

test("widgets fit at every width and pixel ratio; plots fill boxes", async ({ page, url }) => {
  const setScreen = await screenOf(page);
  for (const ratio of RATIOS) {
    const screens = screensOf(ratio);
    await setScreen(screens[0] as Screen);
    await open(page, url);
    await expect(showing(page, "STRIP").locator("canvas")).toBeVisible();
    for (const screen of screens) {
      await setScreen(screen);
      await expectNoFaults(page, nameOf(screen));
      for (const pv of ["STRIP", "WAVE"]) {
        // A plot is drawn again after its box has changed.
        await expect(async () => {
          const { box, pixels, room } = await showing(page, pv)
            .locator("canvas")
            .evaluate((canvas: HTMLCanvasElement) => ({
              box: canvas.getBoundingClientRect().width,
              pixels: canvas.width,
              room: canvas.closest(".pvwire-plot")?.clientWidth ?? 0,
            }));
          const at = `${pv}, ${nameOf(screen)}`;
          expect(Math.abs(box - room), `${at}: fills its box`).toBeLessThan(1.5);
          expect(Math.abs(pixels - room * ratio), `${at}: is sharp`).toBeLessThan(3);
        }).toPass({ timeout: DEADLINE_MS });
      }
    }
  }
});

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
