/** Every value is marked while it is old, names itself, and shows its alarm by colour, text and shape, and without colours. */

import type { Locator, Page } from "@playwright/test";

import { expect, test } from "../fixtures/test";

test("values in the ring are marked while the IOC is gone", async ({ demo, ioc, page }) => {
  const ring = page.getByLabel("Storage ring");
  const facts = ring.locator(".fact");
  const message = ring.locator(".operator-line");
  await expect(facts).toHaveCount(2);
  await expect(message.locator("svg")).toHaveCount(0);
  await ioc.kill();
  await expect(demo.troubles).toContainText("disconnected");
  for (const fact of await facts.all()) {
    await expect(fact).not.toHaveAttribute("data-severity");
    await expect(fact.locator("svg")).toBeVisible();
    await expect(fact).toContainText(/Disconnected · old since \d\d:\d\d:\d\d/);
  }
  await expect(message).toContainText(/Old since \d\d:\d\d:\d\d/);
  await expect(message.locator("svg")).toBeVisible();
});

test("a PV that isn't there has no rate", async ({ ioc, page, demo }) => {
  await page.getByRole("link", { name: "Health" }).click();
  const rateOf = (pv: string) => page.locator(`[data-rate-of="${ioc.prefix}:${pv}"] td`).first();
  await expect(rateOf("RING:CURRENT")).toHaveText(/^\d+\.\d$/);
  await expect(rateOf("NOT_THERE")).toHaveText("–");
  await ioc.kill();
  await expect(demo.troubles).toContainText("disconnected");
  await expect(rateOf("RING:CURRENT")).toHaveText("–");
});

test("a cell of the wall says which PV it is", async ({ demo, page }) => {
  await expect(demo.troubles).toBeVisible();
  await page.getByRole("link", { name: "Wall" }).click();
  const room = page.locator(".wall-room");
  const chosen = page.locator(".wall-cell");
  await expect(chosen).toContainText("Point at a cell");
  await room.hover({ position: { x: 62 + 20, y: 8 } });
  await expect(chosen).toContainText(/sim:\/\/sine\(6,amplitude=9,offset=1\)\s+-?\d+\.\d+/);
  await room.focus();
  await page.keyboard.press("ArrowLeft");
  await expect(chosen).toContainText("sim://sine(5,amplitude=9,offset=0)");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await expect(chosen).toContainText(/offset=[1-9]\d\)/);
});

/** How cells of each severity look: their colours and their borders. */
async function looksOf(page: Page): Promise<string[]> {
  return await page.evaluate(() =>
    ["NO_ALARM", "MINOR", "MAJOR", "INVALID", undefined].map((severity) => {
      const cell = document.querySelector<HTMLElement>(".cell");
      if (cell === null) throw new Error("no cell");
      const copy = cell.cloneNode(true) as HTMLElement;
      if (severity === undefined) copy.removeAttribute("data-severity");
      else copy.dataset.severity = severity;
      cell.parentElement?.append(copy);
      const { backgroundColor, borderTopColor, borderTopStyle, color } = getComputedStyle(copy);
      copy.remove();
      return [backgroundColor, color, borderTopColor, borderTopStyle].join(" ");
    }),
  );
}

test("forced colours keep each severity apart", async ({ demo, page }) => {
  await expect(demo.cells).toHaveCount(1000);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ forcedColors: "active", colorScheme });
    const looks = await looksOf(page);
    expect(new Set(looks).size, looks.join("\n")).toBe(looks.length);
  }
});

/** Degrees on the colour wheel: red 0, yellow 60, magenta 300. */
type HueRange = readonly [from: number, to: number];

const YELLOW: HueRange = [35, 60];
const RED: HueRange = [-15, 15];
const MAGENTA: HueRange = [295, 325];

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    test("colours follow the severity", async ({ demo, ioc }) => {
      const pv = "RF:VOLTAGE:SET";
      const widget = demo.readback(pv);
      const condition = demo.condition(pv);

      await expect(widget).toHaveAttribute("data-severity", "NO_ALARM");
      await expect(condition).toHaveText("No alarm");
      const calm = await borderOf(demo.frame(pv));
      const calmShape = await shapeOf(widget);
      expect(saturation(calm)).toBeLessThan(0.35);

      await ioc.put(pv, 2.2);
      await expect(widget).toHaveAttribute("data-severity", "MINOR");
      await expect(condition).toHaveText("MINOR HIGH");
      expectHue(await borderOf(demo.frame(pv)), YELLOW);
      const minorShape = await shapeOf(widget);

      await ioc.put(pv, 2.7);
      await expect(widget).toHaveAttribute("data-severity", "MAJOR");
      await expect(condition).toHaveText("MAJOR HIHI");
      expectHue(await borderOf(demo.frame(pv)), RED);
      const majorShape = await shapeOf(widget);

      await ioc.put(pv, "nan");
      await expect(widget).toHaveAttribute("data-severity", "INVALID");
      await expect(condition).toHaveText("INVALID UDF");
      expectHue(await borderOf(demo.frame(pv)), MAGENTA);
      const invalidShape = await shapeOf(widget);

      await ioc.put(pv, 1.4);
      await expect(widget).toHaveAttribute("data-severity", "NO_ALARM");
      await expect(condition).toHaveText("No alarm");
      expect(await borderOf(demo.frame(pv))).toEqual(calm);
      expect(new Set([calmShape, minorShape, majorShape, invalidShape]).size).toBe(4);
    });
  });
}

type Rgb = readonly [red: number, green: number, blue: number];

async function borderOf(frame: Locator): Promise<Rgb> {
  const colour = await frame.evaluate((element) => getComputedStyle(element).borderTopColor);
  const [red, green, blue] = (/rgb\((.*)\)/.exec(colour)?.[1] ?? "").split(",").map(Number);
  if (red === undefined || green === undefined || blue === undefined) {
    throw new Error(`not an opaque colour: ${colour}`);
  }
  return [red, green, blue];
}

async function shapeOf(widget: Locator): Promise<string> {
  return await widget.locator(".pvwire-state-icon").innerHTML();
}

function saturation(colour: Rgb): number {
  const most = Math.max(...colour);
  return most === 0 ? 0 : (most - Math.min(...colour)) / most;
}

function expectHue(colour: Rgb, [from, to]: HueRange): void {
  expect(saturation(colour)).toBeGreaterThan(0.4);
  const hue = hueOf(colour);
  const nearest = hue > 180 && from < 0 ? hue - 360 : hue;
  expect(nearest).toBeGreaterThan(from);
  expect(nearest).toBeLessThan(to);
}

function hueOf([red, green, blue]: Rgb): number {
  const radians = Math.atan2(Math.sqrt(3) * (green - blue), 2 * red - green - blue);
  return ((radians * 180) / Math.PI + 360) % 360;
}
