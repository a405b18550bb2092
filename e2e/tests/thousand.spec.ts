/** Every update of 1,000 PVs at 10 Hz reaches the page for 10 s, once and in order. */

import { expect, test } from "../fixtures/test";

const CELLS = 1000;
/** 10 s at 10 Hz. */
const UPDATES = 100;

test("1,000 PVs at 10 Hz for 10 s: no sequence number is missing", async ({ demo }) => {
  await expect(demo.cells).toHaveCount(CELLS);
  await expect(demo.page.locator('.cell[data-state="connected"]')).toHaveCount(CELLS);

  const before = await demo.counters();
  const first = before[0]?.value ?? Number.NaN;
  await expect
    .poll(async () => Number(await demo.readback("N0000").innerText()), { timeout: 30_000 })
    .toBeGreaterThanOrEqual(first + UPDATES);
  const after = await demo.counters();

  // A record counts by one at each update: the value itself is the source's sequence number.
  const wrong = after.flatMap((now, index) => {
    const then = before[index];
    if (then === undefined) return [now.name];
    const counted = now.value - then.value;
    const received = now.updatesReceived - then.updatesReceived;
    const numbered = now.sequence - then.sequence;
    const right =
      counted >= UPDATES - 1 && received === counted && numbered === counted && now.skipped === 0;
    return right
      ? []
      : [
          `${now.name}: counted ${String(counted)}, received ${String(received)}, ` +
            `numbered ${String(numbered)}, skipped ${String(now.skipped)}`,
        ];
  });
  expect(wrong).toEqual([]);

  const stats = await demo.stats();
  expect(stats.gapsTotal).toBe(0);
  expect(stats.skippedTotal).toBe(0);
  expect(stats.reconnectsTotal).toBe(0);
  test.info().annotations.push({
    type: "measured",
    description:
      `${String(Math.round(stats.updatesPerSecond))} updates/s, ` +
      `${String(Math.round(stats.framesPerSecond))} frames/s, ` +
      `${String(Math.round(stats.bytesPerSecond / 1000))} kB/s`,
  });

  // The received values are the ones shown.
  await expect
    .poll(async () => await demo.page.locator('[data-rate="skipped"] dd').innerText())
    .toBe("0");
  await expect(demo.page.locator('[data-summary="thousand"]')).toContainText(
    "1,000 of 1,000 connected",
  );
});
