/** The past of a PV as steps: from a time on it has a value, or none. */

import type { LivePvHistory } from "../types.js";

export interface Steps {
  /** Seconds past 1970, never before the one before. */
  readonly at: Float64Array;
  /** NaN: the PV had no number. */
  readonly value: Float64Array;
}

const seconds = (ns: bigint): number => Number(ns / 1000n) / 1e6;

/** Clocks may differ by so much. A time stamp further ahead of this machine's clock is an error of its IOC. */
const LARGEST_LEAD_MS = 60_000;

const known = new WeakMap<LivePvHistory, Steps>();

/** The same history gives the same steps. */
export function stepsOf(history: LivePvHistory): Steps {
  let steps = known.get(history);
  if (steps === undefined) {
    steps = readSteps(history);
    known.set(history, steps);
  }
  return steps;
}

function readSteps({ gaps, numbers, timeNs }: LivePvHistory): Steps {
  const at = new Float64Array(timeNs.length + 2 * gaps.length);
  const value = new Float64Array(at.length);
  let count = 0;
  let [last, current] = [-Infinity, NaN];
  const latestNs = BigInt(Date.now() + LARGEST_LEAD_MS) * 1_000_000n;
  // A clock that was always ahead has an order of its own.
  const hasErrors = timeNs.some((ns) => ns > 0n && ns <= latestNs);
  const add = (time: number, number: number): void => {
    last = Math.max(last, time);
    at[count] = last;
    value[count] = number;
    count += 1;
  };
  const ordered = [...gaps].sort((one, other) => (one.fromNs < other.fromNs ? -1 : 1));
  let next = 0;
  /** Ends of a gap that has begun. */
  let open: number | undefined;
  const pass = (until: number): void => {
    for (;;) {
      const gap = ordered[next];
      if (open !== undefined) {
        if (open > until) return;
        // The value before the gap holds again, unless an update follows at once.
        add(open, current);
        open = undefined;
      } else if (gap !== undefined && seconds(gap.fromNs) <= until) {
        add(seconds(gap.fromNs), NaN);
        open = gap.toNs === undefined ? Infinity : seconds(gap.toNs);
        next += 1;
        if (open === Infinity && until === Infinity) return;
      } else return;
    }
  };
  timeNs.forEach((ns, row) => {
    if (ns <= 0n) return;
    // All that is known of such an update is its place among the others.
    const time = hasErrors && ns > latestNs ? last : seconds(ns);
    if (time === -Infinity) return;
    pass(time);
    current = numbers[row] ?? NaN;
    // An update inside a gap ends it.
    if (open !== undefined && open !== Infinity) open = undefined;
    add(time, current);
  });
  pass(Infinity);
  return { at: at.subarray(0, count), value: value.subarray(0, count) };
}

/** Index of the last step at or before a time, or -1. */
export function stepAt({ at }: Steps, time: number): number {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[middle] ?? Infinity) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The value at a time; `undefined` where there was none. */
export function valueAt(steps: Steps, time: number): number | undefined {
  const number = steps.value[stepAt(steps, time)];
  return number === undefined || Number.isNaN(number) ? undefined : number;
}

export interface Span {
  /** Seconds past 1970. */
  readonly from: number;
  readonly to: number;
}

/** Points of each column: the first, the lowest, the highest and the last value in it. */
const POINTS = 4;

/** The times of the points of all curves: the same grid for each, so that they can be drawn together. */
export function gridOf({ from, to }: Span, columns: number): number[] {
  const step = (to - from) / columns;
  return Array.from({ length: POINTS * columns + 1 }, (_, at) => from + (at * step) / POINTS);
}

/** The curve on the grid. Nothing is drawn after `until`: what comes isn't known. */
export function curveOf(
  steps: Steps,
  { from, to }: Span,
  columns: number,
  until: number,
): (number | null)[] {
  const curve = new Array<number | null>(POINTS * columns + 1).fill(null);
  const width = (to - from) / columns;
  const { at, value } = steps;
  let next = stepAt(steps, from) + 1;
  let current = value[next - 1] ?? NaN;
  const put = (index: number, number: number): void => {
    const time = from + (index * width) / POINTS;
    if (time <= until && Number.isFinite(number)) curve[index] = number;
  };
  for (let column = 0; column < columns; column += 1) {
    const end = from + (column + 1) * width;
    const first = current;
    let [low, high] = [Infinity, -Infinity];
    let hasGap = false;
    for (; next < at.length && (at[next] ?? Infinity) < end; next += 1) {
      current = value[next] ?? NaN;
      if (Number.isFinite(current)) {
        low = Math.min(low, current);
        high = Math.max(high, current);
      } else hasGap = true;
    }
    const index = POINTS * column;
    put(index, first);
    put(index + 1, low <= high && !hasGap ? low : first);
    put(index + 2, hasGap ? NaN : low <= high ? high : first);
    put(index + 3, current);
  }
  put(POINTS * columns, current);
  return curve;
}

/** The lowest and the highest value in a span; `undefined` if it has none. */
export function rangeOf(steps: Steps, { from, to }: Span): readonly [number, number] | undefined {
  let [low, high] = [Infinity, -Infinity];
  for (let row = Math.max(0, stepAt(steps, from)); row < steps.at.length; row += 1) {
    if ((steps.at[row] ?? Infinity) > to) break;
    const number = steps.value[row] ?? NaN;
    if (!Number.isFinite(number)) continue;
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  return low <= high ? [low, high] : undefined;
}
