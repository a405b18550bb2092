/** A chart's past joined with what it has seen: no update is left out at the seam, and none is twice. */

import { describe, expect, it } from "vitest";

import { History } from "../ts/widgets/history.js";
import { pastRows } from "../ts/widgets/past.js";
import type { PvHistory } from "../ts/types.js";
import { randomNumbers } from "./random.js";

const T = 1_772_368_496;

/** The values of a curve that shows every sample, in order. */
function valuesOf(history: History, now: number): (number | null)[] {
  const { y } = history.curve(now, 1e6, 1e9);
  return y.filter((value, at) => at === 0 || value !== y[at - 1]);
}

const past = (rows: readonly (readonly [number, number])[]): PvHistory => ({
  name: "A",
  timeNs: BigInt64Array.from(rows, ([at]) => BigInt(Math.round(at * 1e6)) * 1000n),
  numbers: Float64Array.from(rows, ([, value]) => value),
  texts: new Map(),
  integers: new Map(),
  severities: new Uint8Array(rows.length),
  statuses: new Uint16Array(rows.length),
  skipped: new Map(),
  gaps: [],
  bins: [],
  hasHeld: false,
  keptSinceNs: 0n,
  tick: 0n,
  epoch: 1,
  sequence: undefined,
  incomplete: undefined,
  archiveError: undefined,
});

describe("a past that is joined with live updates", () => {
  it("has neither gap nor repeat in 10,000 joins at random moments of random loads", () => {
    const random = randomNumbers(7);
    for (let join = 0; join < 10_000; join += 1) {
      // Sequence numbers wrap around.
      const wrap = random() < 0.2 ? 2 ** 32 - 10 : 0;
      const history = new History();
      const steps = 5 + Math.floor(random() * 30);
      const first = 1 + Math.floor(random() * 8);
      const begin = Math.max(1, first - Math.floor(random() * 8));
      // The relay answers from an update on that the client has seen, with those up to a later one.
      const known = first + Math.floor(random() * (steps - first + 1));
      const arrives = known + Math.floor(random() * 5) - 2;
      let flushed = first;
      let isJoined = false;
      // A function, because the compiler assumes that a variable keeps the value it has checked.
      const hasJoined = (): boolean => isJoined;
      const seen: number[] = [];
      const add = (update: number): void => {
        const at = T + update;
        history.add(at, { value: update, stamp: at, sequence: (update + wrap) % 2 ** 32 });
        flushed = update;
        seen.push(update);
      };
      const answer = (): void => {
        const rows = Array.from({ length: known - begin + 1 }, (_, row) => begin + row);
        const answered = past(rows.map((update) => [T + update, update]));
        history.join(pastRows(answered), (known + wrap) % 2 ** 32, T + Math.max(flushed, known));
        isJoined = true;
      };
      add(first);
      for (let update = first + 1; update <= steps + 8; update += 1) {
        if (!hasJoined() && update > Math.max(arrives, first)) answer();
        // A flush shows the newest of some updates.
        if (random() < 0.7) add(update);
      }
      const expected = Array.from({ length: known - begin + 1 }, (_, row) => begin + row);
      expected.push(...seen.filter((update) => update > known));
      expect(valuesOf(history, T + steps + 9), String(join)).toEqual(expected);
    }
  });

  it("shows gaps as gaps, and the value before one again after it", () => {
    const history = new History();
    history.add(T + 60, { value: 3, stamp: T + 50, sequence: 9 });
    const gaps = [
      {
        cause: "disconnected" as const,
        fromNs: BigInt(T + 10) * 10n ** 9n,
        toNs: BigInt(T + 20) * 10n ** 9n,
      },
      { cause: "lost" as const, fromNs: BigInt(T + 55) * 10n ** 9n, toNs: undefined },
    ];
    const rows = [
      [T, 1],
      [T + 5, 2],
      [T + 50, 3],
    ] as const;
    history.join(pastRows({ ...past(rows), gaps }), 9, T + 60);
    expect(valuesOf(history, T + 61)).toEqual([1, 2, null, 2, 3, null]);
  });

  it("is left alone by an answer without rows, and keeps what was seen before the past begins", () => {
    const history = new History();
    history.add(T, { value: 1, stamp: T, sequence: 1 });
    history.join([], undefined, T);
    expect(valuesOf(history, T + 1)).toEqual([1]);
    history.add(T + 1, { value: 2, stamp: T + 1, sequence: 2 });
    history.join([{ at: T + 1, value: 2 }], 2, T + 2);
    expect(valuesOf(history, T + 3)).toEqual([1, 2]);
  });

  it("hides no value whose time stamp doesn't change", () => {
    const history = new History();
    history.add(T + 9, { value: 1, stamp: T, sequence: 1 });
    history.join([{ at: T, value: 1 }], 2, T + 9);
    history.add(T + 10, { value: 2, stamp: T, sequence: 2 });
    expect(history.byArrival).toBe("time stamps that don't change");
    expect(valuesOf(history, T + 11)).toEqual([1, 2]);
  });

  it("is replaced by a longer one, also without a number and after numbers that begin again", () => {
    for (const [first, second] of [
      [2, 2],
      [undefined, 2],
      [undefined, undefined],
      [7, 2],
    ]) {
      const history = new History();
      history.join(
        [
          { at: T, value: 2 },
          { at: T + 1, value: 3 },
        ],
        first,
        T + 2,
      );
      history.add(T + 3, { value: 4, stamp: T + 3, sequence: 8 });
      const longer = [1, 2, 3].map((value) => ({ at: T + value - 2, value }));
      history.join(longer, second, T + 4);
      expect(valuesOf(history, T + 5), `${String(first)} ${String(second)}`).toEqual([1, 2, 3, 4]);
    }
  });

  it("has the first value of a monitor once although the relay had closed the PV", () => {
    const history = new History();
    history.add(T + 9, { value: 5, stamp: T, sequence: 1 });
    history.join(
      [
        { at: T - 1, value: 4 },
        { at: T, value: 5 },
      ],
      undefined,
      T + 9,
    );
    history.add(T + 10, { value: 6, stamp: T + 10, sequence: 2 });
    expect(valuesOf(history, T + 11)).toEqual([4, 5, 6]);
  });
});
