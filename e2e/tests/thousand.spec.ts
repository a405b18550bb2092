/** Every update of 1,000 PVs at 10 Hz reaches the page for 10 s, once and in order. */

import { DEADLINE_MS } from "../../testbed/ts/deadline";
import { watchCores } from "../../testbed/ts/within";
import type { DemoPage } from "../fixtures/demo_page";
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
