/** What the app's plots compute: ranges. No browser is needed. */

import { expect, test } from "@playwright/test";

import { padded } from "../../app/src/plots/range";

/** The next larger double, by its size. */
function next(number: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  view.setBigInt64(0, view.getBigInt64(0) + 1n);
  return view.getFloat64(0);
}

/** More ticks than an axis of a large screen has. */
const MOST_TICKS = 50;

test("a nearly flat curve has a range that steps between ticks can divide, at any magnitude", () => {
  const bad: string[] = [];
  for (let exponent = -1074; exponent < 1024; exponent += 3) {
    for (const sign of [1, -1]) {
      const one = sign * 1.7 * 2 ** exponent;
      let other = one;
      for (let ulps = 0; ulps <= 32; ulps += 1) {
        const [low, high] = padded(Math.min(one, other), Math.max(one, other), 0.25);
        const step = (high - low) / MOST_TICKS;
        const isFinite = Number.isFinite(low) && Number.isFinite(high);
        const isGood = isFinite && low + step > low && high - step < high && low <= one;
        if (!isGood || high < one) bad.push(`${String(ulps)} bits at ${String(one)}`);
        other = next(other);
      }
    }
  }
  expect(bad).toEqual([]);
  expect(padded(1, 1.0000000000000002, 0)[0]).toBeLessThan(1);
  expect(padded(-Number.MAX_VALUE / 2.1, Number.MAX_VALUE / 2.1, 0).every(Number.isFinite)).toBe(
    true,
  );
  expect(padded(null, null, 0)).toEqual([0, 1]);
  expect(padded(0, 0, 0)).toEqual([-1, 1]);
  expect(padded(10, 20, 0.5)).toEqual([9.2, 20.8]);
});
