/** The curve of a strip chart, compared with a plain model of what an operator may see. */

import { describe, expect, it } from "vitest";

import type { PvHistory } from "../ts/index.js";
import type { Points } from "../ts/widgets/decimate.js";
import { History } from "../ts/widgets/history.js";
import { pastRows } from "../ts/widgets/past.js";
import { randomNumbers } from "./random.js";

/** The value that the curve shows at a time; `undefined` where it shows none. */
function valueAt({ x, y }: Points, time: number): number | null | undefined {
  for (let at = 0; at + 1 < x.length; at += 1) {
    const [from = 0, to = 0] = [x[at], x[at + 1]];
    if (from > time || to < time || from === to) continue;
    expect(y[at], "never a ramp").toBe(y[at + 1]);
    return y[at];
  }
  return undefined;
}

/** No part of a curve is a ramp, and time never goes back. */
function expectSteps({ x, y }: Points): void {
  for (let at = 1; at < x.length; at += 1) {
    const [before = 0, now = 0] = [x[at - 1], x[at]];
    expect(now).toBeGreaterThanOrEqual(before);
    if (now > before) expect(y[at]).toBe(y[at - 1]);
  }
}

const T = 1_772_368_496;

describe("a strip chart", () => {
  it("holds a value until the next one: 100 for five minutes, then 1000", () => {
    const history = new History();
    history.add(T, { value: 100, stamp: T });
    history.add(T + 300, { value: 1000, stamp: T + 300 });
    const curve = history.curve(T + 310, 60, 400);
    expect(valueAt(curve, -59.9)).toBe(100);
    expect(valueAt(curve, -10.1)).toBe(100);
    expect(valueAt(curve, -9.9)).toBe(1000);
    expect(valueAt(curve, -0.001), "until now").toBe(1000);
    expectSteps(curve);
  });

  it("shows a PV that doesn't change, from the left edge until now, on a clock that isn't late", () => {
    const history = new History();
    history.add(T, { value: 7, stamp: T - 86_400 });
    expect(history.curve(T + 20, 60, 400)).toEqual({ x: [-60, 0], y: [7, 7] });
    expect(history.offset, "a first value says nothing about clocks").toBe(0);
    expect(history.byArrival).toBeUndefined();
  });

  it("begins with the first value's time stamp", () => {
    const history = new History();
    history.add(T, { value: 7, stamp: T - 20 });
    const curve = history.curve(T, 60, 400);
    expect(valueAt(curve, -20.1)).toBeUndefined();
    expect(valueAt(curve, -19.9)).toBe(7);
  });

  it("compares the clocks by updates, of a source whose clock is ahead or behind", () => {
    for (const ahead of [3600, -3600, 2.5]) {
      const history = new History();
      history.add(T, { value: 1, stamp: T + ahead - 30 });
      history.add(T + 10.1, { value: 2, stamp: T + 10 + ahead });
      history.add(T + 20.3, { value: 3, stamp: T + 20 + ahead });
      expect(history.offset).toBeCloseTo(0.1 - ahead, 1);
      const curve = history.curve(T + 30, 60, 400);
      expect(valueAt(curve, -20.1)).toBe(1);
      expect(valueAt(curve, -19.7)).toBe(2);
      expect(valueAt(curve, -10.1)).toBe(2);
      expect(valueAt(curve, -9.7)).toBe(3);
      expectSteps(curve);
    }
  });

  it("goes on when the source's clock is set", () => {
    for (const jump of [7200, -7200, 30, -30, -0.4]) {
      const history = new History();
      for (let at = 0; at < 20; at += 1) history.add(T + at, { value: at, stamp: T + at });
      for (let at = 20; at < 40; at += 1) history.add(T + at, { value: at, stamp: T + at + jump });
      const curve = history.curve(T + 40, 30, 400);
      for (let at = 11; at < 39; at += 1) {
        expect(valueAt(curve, at - 39.5), `${String(jump)} s at ${String(at)}`).toBe(at);
      }
      expectSteps(curve);
    }
  });

  it("has a gap from when the server was last heard until a value is seen again", () => {
    const history = new History();
    history.add(T, { value: 1, stamp: T });
    history.add(T + 12, { value: undefined, stamp: undefined, lastSeen: T + 10 });
    history.add(T + 13, { value: undefined, stamp: undefined, lastSeen: T + 10 });
    history.add(T + 20, { value: 2, stamp: T });
    history.add(T + 25, { value: 3, stamp: T + 25 });
    const curve = history.curve(T + 30, 60, 400);
    expect(valueAt(curve, -20.1)).toBe(1);
    expect(valueAt(curve, -19.9)).toBeNull();
    expect(valueAt(curve, -10.1), "an old time stamp fills no gap").toBeNull();
    expect(valueAt(curve, -9.9)).toBe(2);
    expect(valueAt(curve, -1)).toBe(3);
    const late = new History();
    late.add(T, { value: 1, stamp: T });
    late.add(T + 30, { value: undefined, stamp: undefined, lastSeen: T - 3600 });
    expect(valueAt(late.curve(T + 30, 60, 400), -6), "another clock erases little").toBe(1);
  });

  it("places values by arrival without time stamps, or with one that doesn't change, and says so", () => {
    for (const [stamp, why] of [
      [undefined, "no time stamps"],
      [T - 1000, "time stamps that don't change"],
    ] as const) {
      const history = new History();
      for (let at = 0; at < 10; at += 1) history.add(T + at, { value: at, stamp });
      const curve = history.curve(T + 10, 30, 400);
      for (let at = 0; at < 10; at += 1) expect(valueAt(curve, at - 9.5)).toBe(at);
      expect(history.byArrival).toBe(why);
      expect(history.offset).toBe(0);
      history.add(T + 10, { value: 10, stamp: T + 10 });
      history.add(T + 11, { value: 11, stamp: T + 11 });
      expect(history.byArrival, "not any more").toBeUndefined();
    }
  });

  it("has a gap where the value is no number", () => {
    const history = new History();
    history.add(T, { value: 1, stamp: T });
    history.add(T + 1, { value: NaN, stamp: T + 1 });
    history.add(T + 2, { value: Infinity, stamp: T + 2 });
    history.add(T + 3, { value: 2, stamp: T + 3 });
    const curve = history.curve(T + 4, 10, 400);
    expect([0.5, 1.5, 2.5, 3.5].map((at) => valueAt(curve, at - 4))).toEqual([1, null, null, 2]);
  });

  it("keeps extremes, gaps and the value that holds where updates are dense", () => {
    const history = new History();
    history.add(T - 50, { value: 5, stamp: T - 50 });
    for (let at = 1; at <= 20_000; at += 1) {
      const value = at === 12_345 ? 99 : at % 2;
      history.add(T + at / 1000, { value, stamp: T + at / 1000 });
    }
    const curve = history.curve(T + 25, 60, 300);
    expect(curve.x.length).toBeLessThan(2500);
    expect(curve.y).toContain(99);
    expect(valueAt(curve, -30), "held before the dense part").toBe(5);
    expect(valueAt(curve, -1), "and after it").toBe(0);
    expectSteps(curve);
  });
});

/** An answer with updates at these seconds after `T`. */
const pastOf = (rows: readonly (readonly [seconds: number, number: number])[]): PvHistory =>
  ({
    gaps: [],
    timeNs: BigInt64Array.from(rows.map(([at]) => BigInt(T + at) * 1_000_000_000n)),
    numbers: Float64Array.from(rows.map(([, number]) => number)),
  }) as unknown as PvHistory;

it("is not frozen at an old value by a time stamp of the future in the past", () => {
  const history = new History();
  const past = pastOf([
    [-50, 1],
    [-40, 2],
    [3600, 3],
    [-30, 4],
    [-10, 5],
  ]);
  history.join(pastRows(past, 1000 * T), undefined, T);
  const curve = history.curve(T, 60, 400);
  expect([-45, -35, -20, -5].map((time) => valueAt(curve, time))).toEqual([1, 3, 4, 5]);
  // A clock that is ahead has an order of its own.
  const rows = [
    [50, 1],
    [70, 2],
    [90, 3],
  ] as const;
  expect(pastRows(pastOf(rows), 1000 * T).map(({ at }) => at - T)).toEqual([50, 70, 90]);
});

it("keeps values without a time stamp, for which the past has no place", () => {
  const history = new History();
  history.add(T, { value: 10, stamp: T - 20, sequence: 1 });
  for (const at of [1, 2, 3]) {
    history.add(T + at, { value: 10 + at, stamp: undefined, sequence: 1 + at });
  }
  const past = pastOf([
    [-30, 9],
    [-20, 10],
  ]);
  history.join(pastRows(past, 1000 * T), 4, T + 3);
  const curve = history.curve(T + 4, 60, 400);
  expect([-30, -10, -2.5, -1.5, -0.5].map((at) => valueAt(curve, at))).toEqual([9, 10, 11, 12, 13]);
});

it("keeps the peaks of a day of many updates, and the present ones whole, in bounded memory", () => {
  const history = new History();
  const count = 100_000;
  const [peak, gap] = [12_345, 30_000];
  for (let at = 0; at < count; at += 1) {
    const value = at === peak ? 99 : at === gap ? NaN : at % 3;
    history.add(T + at / 10, { value, stamp: T + at / 10 });
  }
  const end = T + count / 10;
  expect(history.trim(end, 86_400).length).toBeLessThanOrEqual(40_000);
  const curve = history.curve(end, 86_400, 400);
  expectSteps(curve);
  expect(curve.x[0]).toBeCloseTo(-count / 10, 3);
  expect(curve.x[curve.y.indexOf(99)]).toBeCloseTo(peak / 10 - count / 10, -3);
  expect(curve.y).toContain(null);
  const last = history.curve(end, 10, 4000);
  for (let at = 1; at < 100; at += 1) {
    expect(valueAt(last, (at + 0.5 - 100) / 10)).toBe((count - 100 + at) % 3);
  }
});

it("keeps no more than the time that is shown while its curve isn't drawn", () => {
  const history = new History();
  for (let at = 0; at < 1000; at += 1) history.add(T + at, { value: at, stamp: T + at });
  const times = history.trim(T + 1000, 60);
  expect(times).toHaveLength(60);
  expect(valueAt(history.curve(T + 1000, 60, 400), -59.5)).toBe(940);
});

/** What happened to a PV, by this machine's clock. */
interface Shown {
  readonly from: number;
  readonly value: number | null;
}

/** Longest time between a change and its arrival, or its discovery. */
const SLACK = 1;

/** A PV with a random source, and what an operator may see of it. */
function randomLife(random: () => number): { history: History; model: Shown[]; end: number } {
  const history = new History();
  const model: Shown[] = [];
  const kind = random();
  let ahead = random() < 0.5 ? 0 : (random() - 0.5) * 10_000;
  let now = T;
  let isGone = false;
  const fixed = T - random() * 1e6;
  const stampOf = (made: number): number | undefined =>
    kind < 0.15 ? undefined : kind < 0.3 ? fixed : made + ahead;
  for (let count = 0; count < 60; count += 1) {
    now += random() < 0.3 ? random() * 20 : 0.05 + random();
    if (!isGone && random() < 0.08) {
      isGone = true;
      model.push({ from: now, value: null });
      history.add(now + random() * SLACK, { value: undefined, stamp: undefined, lastSeen: now });
      continue;
    }
    // The clock of the source is set.
    if (random() < 0.04) ahead += (random() < 0.5 ? -1 : 1) * (10 + random() * 5000);
    const value = random() < 0.05 ? NaN : Math.floor(random() * 10);
    const made = now;
    const arrival = made + 0.02 + random() * 0.3;
    model.push({ from: isGone ? arrival : made, value: Number.isNaN(value) ? null : value });
    isGone = false;
    history.add(arrival, { value, stamp: stampOf(made) });
    now = Math.max(now, arrival);
  }
  return { history, model, end: now + SLACK + random() * 30 };
}

it("shows what the model says, at any time, for random values, stamps, clocks and connections", () => {
  const seed = 20_260_302;
  const random = randomNumbers(seed);
  let compared = 0;
  for (let life = 0; life < 400; life += 1) {
    const { end, history, model } = randomLife(random);
    const curve = history.curve(end, 120, 200 + Math.floor(random() * 2000));
    expectSteps(curve);
    const first = model[0]?.from ?? 0;
    for (let count = 0; count < 100; count += 1) {
      const time = end - random() * 120;
      // Around a change either value may be seen.
      if (time < first + SLACK || model.some(({ from }) => Math.abs(from - time) < SLACK)) continue;
      const wanted = model.filter(({ from }) => from <= time).at(-1)?.value;
      const what = `seed ${String(seed)}, life ${String(life)}, ${String(time - T)} s`;
      expect(valueAt(curve, time - end), what).toBe(wanted);
      compared += 1;
    }
  }
  expect(compared).toBeGreaterThan(5000);
});
