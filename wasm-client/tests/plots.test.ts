/** What plots over time compute: curves, ranges, labels, intervals and files. */

import { expect, it } from "vitest";

import type { LivePvHistory } from "../ts/index.js";
import { csvOfTraces, csvText } from "../ts/plots/export.js";
import { logText, numberText, tickTexts } from "../ts/plots/numbers.js";
import { padded, timeTexts } from "../ts/plots/chart.js";
import { endOf, moved, pastOf, requestOf, spanOf, zoomed } from "../ts/plots/span.js";
import { curveOf, gridOf, rangeOf, stepsOf, valueAt } from "../ts/plots/steps.js";
import { formatDate, formatZone } from "../ts/plots/times.js";
import { KnownPasts, type Trace } from "../ts/plots/traces.js";

/** The next larger double, by its size. */
function next(number: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  view.setBigInt64(0, view.getBigInt64(0) + 1n);
  return view.getFloat64(0);
}

/** More ticks than an axis of a large screen has. */
const MOST_TICKS = 50;

it("a nearly flat curve has a range that steps between ticks can divide, at any magnitude", () => {
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

it("labels of an axis are the numbers of its ticks, for values that differ little", () => {
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

it("a list has numbers as wide as needed: integers whole, others as far as they differ", () => {
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

const SECOND = 1_000_000_000n;

/** Updates at these seconds after a begin, and gaps. */
const historyOf = (
  rows: readonly (readonly [seconds: number, number: number])[],
  gaps: LivePvHistory["gaps"] = [],
  begin = nowSeconds,
): LivePvHistory => ({
  name: "A",
  isLoading: false,
  timeNs: BigInt64Array.from(rows.map(([at]) => BigInt(begin + at) * SECOND)),
  numbers: Float64Array.from(rows.map(([, number]) => number)),
  severities: new Uint8Array(rows.length),
  gaps,
  error: undefined,
});

it("a time stamp of the future doesn't freeze the curve at an old value", () => {
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

it("a file has the updates after one with a time stamp of the future", () => {
  const history = historyOf([
    [-40, 0],
    [3600, 9],
    [-30, 1],
    [-10, 2],
    [3600, 9],
    [-5, 3],
  ]);
  const trace = { name: "A", units: "", choices: undefined, history, isNumber: true } as Trace;
  const linesOf = (from: number, to: number): string[] =>
    csvOfTraces([trace], { from: nowSeconds + from, to: nowSeconds + to })
      .trim()
      .split("\r\n")
      .slice(1)
      .map((line) => line.split(",")[2] ?? "");
  expect(linesOf(-20, 0)).toEqual(["1", "2", "3"]);
  expect(linesOf(-60, 0)).toEqual(["0", "1", "2", "3"]);
  expect(linesOf(-4, 0)).toEqual(["3"]);
  const span = { from: nowSeconds - 20, to: nowSeconds };
  expect(csvOfTraces([{ ...trace, isNumber: false }], span)).not.toContain("A,");
  const unstamped = { ...trace, history: { ...history, timeNs: history.timeNs.map(() => 0n) } };
  expect(csvOfTraces([unstamped], span)).not.toContain("1970");
});

it("a curve holds each value until the next, has all peaks, and nothing in gaps or after now", () => {
  const steps = stepsOf(
    historyOf(
      [
        [100, 1],
        [104, 9],
        [105, 2],
        [120, 3],
      ],
      [{ cause: "disconnected", fromNs: 110n * SECOND, toNs: 115n * SECOND }],
      0,
    ),
  );
  expect([99, 100, 103, 104.5, 109, 112, 116, 130].map((at) => valueAt(steps, at))).toEqual([
    undefined,
    1,
    1,
    9,
    2,
    undefined,
    2,
    3,
  ]);
  expect(rangeOf(steps, { from: 100, to: 108 })).toEqual([1, 9]);
  expect(rangeOf(steps, { from: 90, to: 95 })).toBeUndefined();
  const span = { from: 100, to: 140 };
  // Columns of 8 s: the peak of one second is in the first.
  const curve = curveOf(steps, span, 5, 125);
  expect(gridOf(span, 5)).toHaveLength(curve.length);
  expect(Math.max(...curve.slice(0, 4).map(Number))).toBe(9);
  expect(curve.slice(4, 8)).toContain(null);
  expect(curve.slice(8, 13)).toEqual([2, 3, 3, 3, 3]);
  expect(curve.slice(14).every((value) => value === null)).toBe(true);
  const open = historyOf(
    [[100, 1]],
    [{ cause: "disconnected", fromNs: 110n * SECOND, toNs: undefined }],
    0,
  );
  expect(valueAt(stepsOf(open), 120)).toBeUndefined();
});

it("an interval is moved and zoomed by the whole page, within limits", () => {
  const past = pastOf({ from: 1000, to: 1600 });
  expect(past).toEqual({ kind: "past", fromMs: 1_000_000, toMs: 1_600_000 });
  const span = spanOf(past, Date.now());
  expect(span).toEqual({ from: 1000, to: 1600 });
  expect(moved(span, 0.5)).toEqual({ from: 1300, to: 1900 });
  expect(zoomed(span, 0.5)).toEqual({ from: 1150, to: 1450 });
  expect(zoomed(span, 2, 1000)).toEqual({ from: 1000, to: 2200 });
  expect(pastOf({ from: 1000, to: 1000 })).toEqual({
    kind: "past",
    fromMs: 999_950,
    toMs: 1_000_050,
  });
  expect(spanOf({ kind: "live", seconds: 60 }, 1_000_000)).toEqual({ from: 940, to: 1000 });
  expect(spanOf({ kind: "live", seconds: 0 }, 1_000_000).from).toBe(999.9);
});

it("a past interval is requested up to its end, and one that isn't over goes on live", () => {
  const past = pastOf({ from: nowSeconds - 100, to: nowSeconds - 10 });
  expect(requestOf(past, 400)).toEqual({
    from: 1000 * (nowSeconds - 100),
    to: 1000 * (nowSeconds - 10),
    points: 400,
  });
  expect(endOf(past)).toBe(1000 * (nowSeconds - 10));
  const ahead = pastOf({ from: nowSeconds - 100, to: nowSeconds + 1000 });
  expect(requestOf(ahead, 400).to).toBeUndefined();
  expect(endOf(ahead)).toBeUndefined();
  expect(requestOf({ kind: "live", seconds: 60 }, 400)).toEqual({ from: "-70s", points: 400 });
});

it("a spreadsheet computes no cell of a file", () => {
  expect(csvText([["=1+1", "-5", 'a "b"', "a,b"]])).toBe(`'=1+1,-5,"a ""b""","a,b"\r\n`);
  expect(csvText([["-1+2 A", "-5 =A1", "-5 cmd|' /C x'!A0"]])).toBe(
    "'-1+2 A,'-5 =A1,'-5 cmd|' /C x'!A0\r\n",
  );
});

it("a number with a sign stays one in a file, also with its unit", () => {
  const cells = ["-12.50 A", "-1.5e-7 mm/s²", "-inf", "+3 °C", "-.5 %"];
  expect(csvText([cells])).toBe(`${cells.join(",")}\r\n`);
});

it("dates are those of the zone that is named", () => {
  const ms = Date.UTC(2026, 0, 31, 7, 31, 16);
  expect(formatDate(ms, true)).toBe("2026-01-31 07:31:16");
  expect(formatZone(true)).toBe("UTC");
  const minutes = -new Date(ms).getTimezoneOffset();
  expect(formatDate(ms - 60_000 * minutes, false)).toBe("2026-01-31 07:31:16");
  expect(formatZone(false)).toMatch(/^local time, UTC/);
});

it("ticks of a UTC axis are an hour apart also where the browser's zone changes its clock", () => {
  // A day on which clocks of Europe and one on which those of America change.
  for (const day of [Date.UTC(2026, 2, 29), Date.UTC(2026, 2, 8)]) {
    const ticks = Array.from({ length: 24 }, (_, hour) => day / 1000 + 3600 * hour);
    const texts = timeTexts(ticks, 3600, true).map((text) => text.slice(0, 5));
    expect(texts).toEqual(ticks.map((_, hour) => `${String(hour).padStart(2, "0")}:00`));
  }
  expect(timeTexts([0.9995, 1.25], 0.25, true)[0]).toMatch(/^00:00:01\.000/);
});

it("a chart that is moved keeps its curves until the past of its new range is there", () => {
  const pasts = new KnownPasts();
  const trace = { name: "A", history: historyOf([[100, 1]], [], 0) } as unknown as Trace;
  const awaited: Trace = { ...trace, history: { ...historyOf([], [], 0), isLoading: true } };
  expect(pasts.show([awaited], { from: 0, to: 200 })).toEqual([awaited]);
  expect(pasts.show([trace], { from: 100, to: 200 })).toEqual([trace]);
  const [shown] = pasts.show([awaited], { from: 150, to: 250 });
  expect(shown).toEqual({ ...trace, knownTo: 200 });
  // What comes after the earlier range isn't known.
  const curve = curveOf(stepsOf(trace.history as LivePvHistory), { from: 150, to: 250 }, 5, 200);
  expect([curve.at(0), curve.at(8), curve.at(-1)]).toEqual([1, 1, null]);
  const arrived = { ...trace, history: historyOf([[100, 7]], [], 0) };
  expect(pasts.show([arrived], { from: 150, to: 250 })).toEqual([arrived]);
  // Live updates that come before the past are shown.
  const live = { ...awaited, history: { ...historyOf([[240, 8]], [], 0), isLoading: true } };
  expect(pasts.show([live], { from: 150, to: 250 })).toEqual([live]);
});
