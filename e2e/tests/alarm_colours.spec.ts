/** Widgets show alarms by colour, text and shape, in light and dark. */

import type { Locator } from "@playwright/test";

import { expect, test } from "../fixtures/test";

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
