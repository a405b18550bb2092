/** What the app's plots compute: ranges, labels and files. No browser is needed. */

import { expect, test } from "@playwright/test";
import type { LivePvHistory } from "pvwire";

import { csvOfTraces } from "../../app/src/plots/export";
import { logText, numberText, tickTexts } from "../../app/src/plots/numbers";
import { padded } from "../../app/src/plots/range";
import { rangeOf, stepsOf, valueAt } from "../../app/src/plots/steps";
import type { Trace } from "../../app/src/plots/traces";

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

/** Ticks as uPlot makes them. */
const ticksFrom = (first: number, step: number): number[] =>
  Array.from({ length: 5 }, (_, at) => Number((first + at * step).toPrecision(15)));

test("labels of an axis are the numbers of its ticks, for values that differ little", () => {
  expect(tickTexts(ticksFrom(499_653_980, 10), 10)).toEqual([
    "499653980",
    "499653990",
    "499654000",
    "499654010",
    "499654020",
  ]);
  expect(tickTexts(ticksFrom(1.2344e-9, 5e-14), 5e-14)).toEqual([
    "1.23440e-9",
    "1.23445e-9",
    "1.23450e-9",
    "1.23455e-9",
    "1.23460e-9",
  ]);
  expect(tickTexts([0, 0.25, 0.5], 0.25)).toEqual(["0", "0.25", "0.50"]);
  expect(tickTexts([-20_000, 0, null, 20_000], 20_000)).toEqual(["-20000", "0", "", "20000"]);
  expect(tickTexts([0, 5e14, 1e15], 5e14)).toEqual(["0", "5e+14", "1.0e+15"]);
  const bad: string[] = [];
  for (let exponent = -30; exponent < 30; exponent += 1) {
    for (const digits of [1, 2, 2.5, 5]) {
      for (const first of [0, 3, -2, 12_344, 49_965_398]) {
        const step = Number(`${String(digits)}e${String(exponent)}`);
        const ticks = ticksFrom(Number((first * step).toPrecision(15)), step);
        const texts = tickTexts(ticks, step);
        const isRight = texts.every(
          (text, at) => Math.abs(Number(text) - (ticks[at] ?? NaN)) <= 1e-6 * step,
        );
        if (!isRight || new Set(texts).size < texts.length) bad.push(texts.join(" "));
      }
    }
  }
  expect(bad).toEqual([]);
  expect([1e-9, 2e-5, 0.01, 1, 3e6, 1e7].map(logText)).toEqual([
    "1e-9",
    "2e-5",
    "0.01",
    "1",
    "3000000",
    "1e+7",
  ]);
});

test("a list has numbers as wide as needed: integers whole, others as far as they differ", () => {
  expect([12_345_678, 499_653_980, -1e14, 0, 250].map((number) => numberText(number))).toEqual([
    "12345678",
    "499653980",
    "-100000000000000",
    "0",
    "250",
  ]);
  expect(
    [0.1 + 0.2, 1.5e-7, 3.25e20, 123_456_789_012.5].map((number) => numberText(number)),
  ).toEqual(["0.3", "1.5e-7", "3.25e+20", "123456789013"]);
  expect(numberText(499_654_000.25, 1)).toBe("499654000.25");
  const [low, high] = [1.2345e-9, 1.2345e-9 + 1e-16];
  expect(numberText(low, high - low)).toBe("1.2345e-9");
  expect(numberText(high, high - low)).toBe("1.2345001e-9");
  expect(numberText(1.0000000000000002, 2 ** -52)).toBe("1.0000000000000002");
});

const nowSeconds = Math.floor(Date.now() / 1000);

/** Updates at these seconds after now, and gaps. */
const historyOf = (
  rows: readonly (readonly [seconds: number, number: number])[],
  gaps: LivePvHistory["gaps"] = [],
): LivePvHistory => ({
  name: "A",
  isLoading: false,
  timeNs: BigInt64Array.from(rows.map(([at]) => BigInt(nowSeconds + at) * 1_000_000_000n)),
  numbers: Float64Array.from(rows.map(([, number]) => number)),
  severities: new Uint8Array(rows.length),
  gaps,
  error: undefined,
});

test("a time stamp of the future doesn't freeze the curve at an old value", () => {
  const at = (history: LivePvHistory, seconds: number) =>
    valueAt(stepsOf(history), nowSeconds + seconds);
  const wrong = historyOf([
    [-30, 1],
    [-20, 2],
    [3600, 3],
    [-5, 4],
    [-1, 5],
  ]);
  expect([-25, -10, -3, 0].map((seconds) => at(wrong, seconds))).toEqual([1, 3, 4, 5]);
  expect(rangeOf(stepsOf(wrong), { from: nowSeconds - 4, to: nowSeconds })).toEqual([4, 5]);
  const first = historyOf([
    [3600, 1],
    [-5, 2],
  ]);
  expect([-10, 0].map((seconds) => at(first, seconds))).toEqual([undefined, 2]);
  const newest = historyOf([
    [-30, 1],
    [3600, 2],
  ]);
  expect(at(newest, 0), "the present value").toBe(2);
  const ahead = historyOf([
    [3600, 1],
    [3610, 2],
  ]);
  expect([0, 3605, 3615].map((seconds) => at(ahead, seconds))).toEqual([undefined, 1, 2]);
});

test("a file has the updates after one with a time stamp of the future", () => {
  const history = historyOf([
    [-40, 0],
    [3600, 9],
    [-30, 1],
    [-10, 2],
    [3600, 9],
    [-5, 3],
  ]);
  const trace = { name: "A", units: "", choices: undefined, history } as Trace;
  const linesOf = (from: number, to: number): string[] =>
    csvOfTraces([trace], { from: nowSeconds + from, to: nowSeconds + to })
      .trim()
      .split("\r\n")
      .slice(1)
      .map((line) => line.split(",")[2] ?? "");
  expect(linesOf(-20, 0)).toEqual(["1", "2", "3"]);
  expect(linesOf(-60, 0)).toEqual(["0", "1", "2", "3"]);
  expect(linesOf(-4, 0)).toEqual(["3"]);
});
