/**
 * Every page and widget is complete and legible, from phones to wall displays, at every pixel
 * ratio.
 */

import { expect } from "@playwright/test";

import { DEADLINE_MS } from "../../testbed/ts/deadline";
import {
  expectNoFaults,
  nameOf,
  RATIOS,
  screenOf,
  screensOf,
  type Screen,
} from "../fixtures/screen";
import { open, showing, test } from "../fixtures/widgets_page";

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
