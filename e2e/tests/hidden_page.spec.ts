/** A hidden page gets updates at intervals, and is right again when it is shown. */

import { DEADLINE_MS } from "../../testbed/ts/deadline";
import type { Counter, DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

/** As a browser does when the user switches to another tab or back. */
async function turn(demo: DemoPage, state: "hidden" | "visible"): Promise<void> {
  await demo.page.evaluate((now) => {
    Object.defineProperty(document, "visibilityState", { get: () => now, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
}

/** Number of frames per update of `N0000`, over at least this number of updates. */
async function framesPerCount(demo: DemoPage, counts: number): Promise<number> {
  const now = async () => ({
    frames: (await demo.freshStats()).framesTotal,
    count: (await demo.counters())[0]?.value ?? Number.NaN,
  });
  const first = await now();
  await expect
    .poll(async () => (await demo.counters())[0]?.value)
    .toBeGreaterThanOrEqual(first.count + counts);
  const last = await now();
  return (last.frames - first.frames) / (last.count - first.count);
}

/** Number of values of all 1,000 PVs that were skipped because the page was hidden. */
const paced = (counters: readonly Counter[]): number =>
  counters.reduce((sum, { skips }) => sum + skips.paced, 0);

test.use({ counting: true });
test.setTimeout(12 * DEADLINE_MS);

test("hidden page: a frame a second; visible again: every update", async ({ demo }) => {
  await expect(demo.page.locator('.cell[data-state="connected"]')).toHaveCount(1000);
  let seen = await framesPerCount(demo, 50);
  expect(paced(await demo.counters())).toBe(0);

  // A busy machine may delay the frames of one attempt.
  let hidden = NaN;
  await expect(async () => {
    await turn(demo, "hidden");
    // One catch-up for ten updates, plus answers to pings.
    hidden = await framesPerCount(demo, 50);
    await turn(demo, "visible");
    const again = await framesPerCount(demo, 50);
    expect(again).toBeGreaterThan(2 * hidden);
    seen = Math.max(seen, again);
    expect(hidden).toBeLessThan(Math.min(0.3, seen / 2));
  }).toPass({ timeout: 6 * DEADLINE_MS });
  expect(paced(await demo.counters())).toBeGreaterThan(10_000);

  const before = await demo.counters();
  await framesPerCount(demo, 20);
  const after = await demo.counters();
  expect(paced(after), "nothing is left out any more").toBe(paced(before));
  // Each record counts by one, so that every missing value is noticed. On an overloaded machine a
  // page may fall behind, which is counted as such.
  const wrong = after.filter(({ value, sequence, updatesReceived, skips }, index) => {
    const then = before[index];
    if (then === undefined) return true;
    const counted = value - then.value;
    const received = updatesReceived - then.updatesReceived;
    const behind = skips.behind - then.skips.behind;
    return counted !== sequence - then.sequence || counted !== received + behind;
  });
  expect(wrong).toEqual([]);
  const { gapsTotal, reconnectsTotal } = await demo.stats();
  expect({ gapsTotal, reconnectsTotal }).toEqual({ gapsTotal: 0, reconnectsTotal: 0 });
});
