/** The demo's pages with a real IOC and a real relay: they work, and are complete and legible on every screen. */

import type { Page } from "@playwright/test";

import {
  expectAccessible,
  expectNoFaults,
  nameOf,
  type Screen,
  screenOf,
  screensOf,
} from "../fixtures/screen";
import { expect, test } from "../fixtures/test";

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    test("beamline: a set point moves its plot, and the camera runs", async ({ demo, ioc }) => {
      await demo.page.getByRole("link", { name: "Beamline" }).click();
      await expect(demo.page.getByRole("heading", { level: 1 })).toContainText("Beamline");
      await demo.setPoint("RF:VOLTAGE:SET").send("1.9");
      await expect(demo.setPoint("RF:VOLTAGE:SET").outcome).toContainText("Written");
      expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.9");
      const meter = demo.page.getByRole("meter", { name: "RF voltage" });
      await expect
        .poll(async () => Number(await meter.getAttribute("aria-valuenow")), { timeout: 30_000 })
        .toBeGreaterThan(1.8);
      const camera = demo.page.getByRole("img", { name: "Screen 1: image of 320 × 240 pixels" });
      const picture = async (): Promise<string> =>
        await camera.evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
      const first = await picture();
      await expect.poll(picture).not.toBe(first);
      await expectAccessible(demo.page);

      await ioc.kill();
      await expect(demo.page.locator(".pvwire-strip").first()).toContainText("Disconnected");
      await expect(demo.page.locator(".pvwire-image")).toContainText("No alarm");
    });
  });
}

test("wall: 5,000 readbacks, said in words too", async ({ demo }) => {
  await demo.page.getByRole("link", { name: "Wall" }).click();
  await expect(demo.page.locator('[data-summary="wall"]')).toContainText(
    /^5,000 of 5,000 connected · [\d,]+ minor, [\d,]+ major alarms/,
    { timeout: 30_000 },
  );
  const canvas = demo.page.getByRole("img", { name: /^5,000 readbacks/ });
  await expect(canvas).toBeVisible();
  const right = async (): Promise<number> => {
    const box = await canvas.boundingBox();
    return (box?.x ?? NaN) + (box?.width ?? NaN);
  };
  await expect.poll(right, { message: "within the page" }).toBeLessThan(1440);
  await expectAccessible(demo.page);
  // A translucent system colour is not painted over itself: no more colours than severities here.
  await demo.page.emulateMedia({ forcedColors: "active" });
  await demo.page.reload();
  // A cell that waits for its value has a colour of its own.
  await expect(demo.page.locator('[data-summary="wall"]')).toContainText(
    /5,000 of 5,000 connected.*[1-9][\d,]* minor, [1-9]/s,
    { timeout: 30_000 },
  );
  const grounds = async (): Promise<number> =>
    await canvas.evaluate((element) => {
      const { devicePixelRatio: scale } = window;
      const context = (element as HTMLCanvasElement).getContext("2d");
      const seen = new Set<string>();
      for (let row = 0; row < 20; row += 1) {
        for (let column = 0; column < 20; column += 1) {
          const at = [(column * 62 + 1) * scale, (row * 16 + 1) * scale] as const;
          seen.add(String(context?.getImageData(...at, 1, 1).data));
        }
      }
      return seen.size;
    });
  for (let second = 0; second < 3; second += 1) {
    await demo.page.waitForTimeout(1000);
    expect(await grounds()).toBeLessThanOrEqual(3);
  }
});

test.describe("with counting PVs", () => {
  test.use({ counting: true });

  test("health: rates, skipped values, latency and the relay's counts", async ({ demo, relay }) => {
    await demo.page.getByRole("link", { name: "Health" }).click();
    const counter = demo.page.getByRole("row", { name: /:N0000/ });
    await expect
      .poll(async () => Number(await counter.getByRole("cell").first().innerText()), {
        timeout: 30_000,
      })
      .toBeGreaterThan(5);
    const latency = demo.page.getByLabel("Latency");
    await expect(latency).toContainText(/\d updates; the relay's clock is \d+\.\d ms/);
    // IOC, relay and browser share one clock.
    await expect(latency).toContainText(/Stamp to callback\s*p50 ≤ \d+ ms/);
    const relaySays = demo.page.getByLabel("Relay", { exact: true });
    await expect(relaySays).toContainText(/Clients\s*1/);
    await expect(relaySays).toContainText(/Updates in\s*[\d,]+ \/s/);
    await expect(relaySays).toContainText(/Stamp to sent\s*p50 ≤ \d+ ms/, { timeout: 30_000 });
    await expectAccessible(demo.page);
    await relay.kill();
    await expect(relaySays).toContainText("It doesn't answer", { timeout: 30_000 });
    await expect(demo.page.getByLabel("Connection", { exact: true })).toContainText("lost");
  });
});

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
