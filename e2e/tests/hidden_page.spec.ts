/** Does a page that nobody sees drop to a trickle by itself, and show the truth when it is seen again? */

import type { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

/** As a browser does when another tab is opened, or this one again. */
async function turn(demo: DemoPage, state: "hidden" | "visible"): Promise<void> {
  await demo.page.evaluate((now) => {
    Object.defineProperty(document, "visibilityState", { get: () => now, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
}

/** Frames that come while `N0000` counts to that many more. */
async function framesWhile(demo: DemoPage, counts: number): Promise<number> {
  const count = async (): Promise<number> => (await demo.counters())[0]?.value ?? Number.NaN;
  const { framesTotal } = await demo.stats();
  const first = await count();
  await expect.poll(count, { timeout: 30_000 }).toBeGreaterThanOrEqual(first + counts);
  return (await demo.stats()).framesTotal - framesTotal;
}

test("hidden page: about a frame a second; seen again: every update", async ({ demo }) => {
  await expect(demo.page.locator('.cell[data-state="connected"]')).toHaveCount(1000);
  const seen = await framesWhile(demo, 50);
  expect((await demo.stats()).skippedTotal).toBe(0);

  await turn(demo, "hidden");
  // 5 s: a catch-up each, and answers to pings.
  const hidden = await framesWhile(demo, 50);
  expect(hidden).toBeLessThan(Math.min(15, seen / 2));
  const skipped = (await demo.stats()).skippedTotal;
  expect(skipped).toBeGreaterThan(10_000);

  await turn(demo, "visible");
  expect(await framesWhile(demo, 50)).toBeGreaterThan(2 * hidden);
  const before = await demo.counters();
  const again = (await demo.stats()).skippedTotal;
  await framesWhile(demo, 20);
  expect((await demo.stats()).skippedTotal, "nothing is left out any more").toBe(again);
  // Each record counts by one: what wasn't shown is known to the last value.
  const wrong = (await demo.counters()).filter(({ value, sequence, updatesReceived }, index) => {
    const then = before[index];
    const counted = value - (then?.value ?? Number.NaN);
    const received = updatesReceived - (then?.updatesReceived ?? 0);
    return counted !== sequence - (then?.sequence ?? 0) || counted !== received;
  });
  expect(wrong).toEqual([]);
  const { gapsTotal, reconnectsTotal } = await demo.stats();
  expect({ gapsTotal, reconnectsTotal }).toEqual({ gapsTotal: 0, reconnectsTotal: 0 });
});
