/**
 * Every update of 1,000 PVs at 10 Hz reaches the page for 10 s, once and in order. A hidden page gets updates at intervals,
 * and is right again when it is shown.
 */

import { DEADLINE_MS } from "../../testbed/ts/deadline";
import { watchCores } from "../../testbed/ts/within";
import type { Counter, DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

const CELLS = 1000;
/** 10 s at 10 Hz. */
const UPDATES = 100;

/** On a busy machine the relay may leave out updates of a page that is behind, and counts them. */
const ATTEMPTS = 5;
/** Where programs wait for a core in this share of the time, each attempt may leave some out. */
const BUSY = 0.5;

test.use({ counting: true });
test.setTimeout(12 * DEADLINE_MS);

/**
 * Follows all counters for 10 s. Returns the number of updates that were left out because the page
 * was behind, and descriptions of the PVs that miss any other update.
 */
async function follow(demo: DemoPage): Promise<{ behind: number; wrong: string[] }> {
  const before = await demo.counters();
  const first = before[0]?.value ?? Number.NaN;
  await expect
    .poll(async () => Number(await demo.readback("N0000").innerText()), {
      timeout: 2 * DEADLINE_MS,
    })
    .toBeGreaterThanOrEqual(first + UPDATES);
  const after = await demo.counters();

  // A record counts by one at each update: the value itself is the source's sequence number.
  let sum = 0;
  const wrong = after.flatMap((now, index) => {
    const then = before[index];
    if (then === undefined) return [now.name];
    const counted = now.value - then.value;
    const received = now.updatesReceived - then.updatesReceived;
    const numbered = now.sequence - then.sequence;
    const skipped = now.skipped - then.skipped;
    const behind = now.skips.behind - then.skips.behind;
    sum += behind;
    const right =
      counted >= UPDATES - 1 &&
      received + behind === counted &&
      numbered === counted &&
      skipped === behind;
    return right
      ? []
      : [
          `${now.name}: counted ${String(counted)}, received ${String(received)}, ` +
            `numbered ${String(numbered)}, skipped ${String(skipped)}, behind ${String(behind)}`,
        ];
  });
  return { behind: sum, wrong };
}

test("1,000 PVs at 10 Hz for 10 s: no sequence number is missing", async ({ demo }) => {
  await expect(demo.cells).toHaveCount(CELLS);
  await expect(demo.page.locator('.cell[data-state="connected"]')).toHaveCount(CELLS);
  // A PV is connected a moment before its first value comes.
  await expect(async () => {
    await demo.counters();
  }).toPass({ timeout: DEADLINE_MS });

  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const busy = watchCores();
    const { behind, wrong } = await follow(demo);
    expect(wrong).toEqual([]);
    if (behind === 0 || busy() > BUSY) break;
    expect(attempt, `${String(behind)} updates were left out each time`).toBeLessThan(ATTEMPTS);
  }

  const stats = await demo.freshStats();
  expect(stats.gapsTotal).toBe(0);
  expect(stats.reconnectsTotal).toBe(0);
  const wasBehind = (await demo.counters()).some(({ skipped }) => skipped > 0);
  if (!wasBehind) expect(stats.skippedTotal).toBe(0);
  test.info().annotations.push({
    type: "measured",
    description:
      `${String(Math.round(stats.updatesPerSecond))} updates/s, ` +
      `${String(Math.round(stats.framesPerSecond))} frames/s, ` +
      `${String(Math.round(stats.bytesPerSecond / 1000))} kB/s`,
  });

  // The counted values are the ones shown.
  await expect(async () => {
    const { skippedTotal } = await demo.stats();
    const shown = await demo.page.locator('[data-rate="skipped"] dd').innerText();
    expect(shown.replaceAll(",", "")).toBe(String(skippedTotal));
  }).toPass({ timeout: DEADLINE_MS });
  await expect(demo.page.locator('[data-summary="thousand"]')).toContainText(
    "1,000 of 1,000 connected",
  );
});

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
