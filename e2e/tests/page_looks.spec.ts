/** The demo's pages are complete and legible on every screen, with a real IOC and relay. */

import type { Page } from "@playwright/test";

import { expectAccessible } from "../fixtures/accessible";
import { expectNoFaults, nameOf, screenOf, screensOf, type Screen } from "../fixtures/screen";
import { expect, test } from "../fixtures/test";

/** Each width once, in light; in dark a phone at 1.25 and a wall at 2 device pixels per CSS pixel. */
const ON = [
  ...screensOf(1).filter(({ colorScheme }) => colorScheme === "light"),
  ...screensOf(1.25).filter(({ colorScheme, width }) => colorScheme === "dark" && width === 390),
  ...screensOf(2).filter(({ colorScheme, width }) => colorScheme === "dark" && width === 2560),
];

/** A phone and a monitor in forced colours (Windows' contrast themes), which draw lines that other pages lack. */
const FORCED = screensOf(1).filter(
  ({ colorScheme, width }) => colorScheme === "dark" && (width === 390 || width === 1440),
);

async function expectWhole(page: Page, what: string, setScreen: (screen: Screen) => Promise<void>) {
  for (const screen of ON) {
    await setScreen(screen);
    await expectNoFaults(page, `${what}, ${nameOf(screen)}`);
  }
}

async function expectForced(
  page: Page,
  what: string,
  setScreen: (screen: Screen) => Promise<void>,
) {
  await page.emulateMedia({ forcedColors: "active" });
  for (const screen of FORCED) {
    await setScreen(screen);
    await expectNoFaults(page, `${what}, ${nameOf(screen)}, forced colours`);
  }
  await page.emulateMedia({ forcedColors: "none" });
}

test.describe("with counting PVs", () => {
  test.use({ counting: true });

  for (const [title, ready] of [
    ["Machine status", '[data-state="connected"] .uplot canvas'],
    ["Beamline", ".pvwire-image canvas"],
    ["Wall", ".wall canvas"],
    ["Health", ".health"],
    ["Console", ".graphiql-query-editor .CodeMirror"],
  ] as const) {
    test(`${title}: the page fits every screen`, async ({ demo }) => {
      const setScreen = await screenOf(demo.page);
      await demo.page.getByRole("link", { name: title }).click();
      await expect(demo.page.locator(ready).first()).toBeVisible();
      await expectWhole(demo.page, title, setScreen);
    });
  }
});

test("the machine fits every screen in alarm, and while its IOC is gone", async ({ demo, ioc }) => {
  const setScreen = await screenOf(demo.page);
  await ioc.put("RF:VOLTAGE:SET", 2.7);
  await expect(demo.troubles).toContainText("major");
  await demo.page.getByRole("button", { name: "Tools" }).click();
  await expectWhole(demo.page, "in alarm, with tools", setScreen);
  await expectForced(demo.page, "in alarm, with tools", setScreen);
  await ioc.kill();
  await expect(demo.troubles).toContainText("disconnected");
  await expectWhole(demo.page, "gone", setScreen);
  await expectForced(demo.page, "gone", setScreen);
});

test("the machine fits a phone and a desk while the page has never had a relay", async ({
  demo,
  relay,
}) => {
  const setScreen = await screenOf(demo.page);
  await relay.kill();
  await demo.page.reload();
  // Each card has the reason, which is longer than an alarm.
  await expect(demo.page.locator(".station-condition").first()).toContainText("Not connected to");
  for (const screen of screensOf(1).filter(({ width }) => width === 390 || width === 1440)) {
    await setScreen(screen);
    await expectNoFaults(demo.page, `without a relay, ${nameOf(screen)}`);
  }
});

test("on a phone values come early and queries use the whole width", async ({ demo }) => {
  await demo.page.setViewportSize({ width: 390, height: 844 });
  const header = demo.page.getByRole("banner");
  await expect.poll(async () => (await header.boundingBox())?.height).toBeLessThan(140);
  await demo.page.getByRole("link", { name: "Console" }).click();
  const editor = demo.page.locator(".graphiql-query-editor .CodeMirror");
  await expect(editor).toBeVisible();
  await expect.poll(async () => (await editor.boundingBox())?.width).toBeGreaterThan(220);
});

test("the relay's page fits every screen and shows puts and searches", async ({
  page,
  pageUrl,
  relay,
  ioc,
}) => {
  // A client, so that the tables have rows, but not a thousand.
  const other = await page.context().newPage();
  await other.goto(`${pageUrl}?prefix=${ioc.prefix}#/beamline`);
  await page.goto(`http://127.0.0.1:${String(relay.port)}/`);
  await expect(page.locator("#pvs tr").first()).toBeVisible();
  await expect(page.locator("#clients tr").first()).toBeVisible();
  await expect(page.getByLabel("Settings")).toContainText(/Puts\s*On: \d+ rules? allows? some PVs/);
  await expect(page.getByLabel("Settings")).toContainText(/Channel Access searches/);
  const setScreen = await screenOf(page);
  await expectWhole(page, "relay", setScreen);
  // The last panel ends with the window of a wall.
  const last = page.getByRole("region", { name: "Clients", exact: true });
  await setScreen({ width: 2560, height: 1440, ratio: 1, colorScheme: "light" });
  await expect
    .poll(async () => {
      const box = await last.boundingBox();
      return (box?.y ?? 0) + (box?.height ?? 0);
    })
    .toBeGreaterThan(1380);
  await expectForced(page, "relay", setScreen);
  await relay.kill();
  await expect(page.getByRole("alert")).toContainText("does not answer");
  await expectAccessible(page);
});
