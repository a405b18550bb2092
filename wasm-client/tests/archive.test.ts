/** What the relay keeps joined with what its archiver has: no sample is missing, and none is twice. */

import { describe, expect, it, vi } from "vitest";

import {
  filled,
  missing,
  withArchive,
  type Archived,
  type AskArchiver,
} from "../ts/history/archive.js";
import { Loader } from "../ts/store/loader.js";
import type { PvHistory, PvHistoryGap } from "../ts/types.js";
import { History } from "../ts/widgets/history.js";
import { pastRows } from "../ts/widgets/past.js";
import { archiveWasm } from "./golden.js";
import { randomNumbers } from "./random.js";

const S = 1_000_000_000n;
const T = 1_772_368_496n * S;

/** Columns of the samples at these seconds, whose values are the seconds. */
function columns(seconds: readonly number[]): Archived {
  return {
    timeNs: BigInt64Array.from(seconds, (at) => T + BigInt(at) * S),
    numbers: Float64Array.from(seconds),
    severities: Uint8Array.from(seconds, (at) => at % 4),
    statuses: new Uint16Array(seconds.length),
    texts: new Map(seconds.map((at, row) => [row, String(at)])),
    gaps: [],
    bins: [],
    hasHeld: false,
  };
}

function keptOf(
  seconds: readonly number[],
  gaps: readonly PvHistoryGap[],
  hasHeld: boolean,
): PvHistory {
  return {
    ...columns(seconds),
    name: "A",
    integers: new Map(),
    skipped: new Map(),
    gaps,
    hasHeld,
    keptSinceNs: undefined,
    tick: 0n,
    epoch: 1,
    sequence: 9,
    incomplete: undefined,
    archiveError: undefined,
  };
}

const at = (seconds: number): bigint => T + BigInt(seconds) * S;

const gap = (cause: PvHistoryGap["cause"], from: number, to: number | undefined): PvHistoryGap => ({
  cause,
  fromNs: at(from) + 1n,
  toNs: to === undefined ? undefined : at(to) - 1n,
});

describe("a past with an archiver", () => {
  it("has every sample once, in 500 pasts with random begins and random times without a monitor", () => {
    const random = randomNumbers(11);
    const below = (most: number): number => Math.floor(random() * most);
    let wholes = 0;
    for (let turn = 0; turn < 500; turn += 1) {
      const all = Array.from({ length: 60 }, (_, second) => second).filter(() => random() < 0.7);
      if (all.length < 10) continue;
      const [from, to] = [below(20), 40 + below(20)];
      const begin = below(45);
      // Two times without a monitor, of which the relay has no samples.
      const holes = [10 + below(10), 30 + below(10)].map((hole): [number, number] => [
        hole,
        hole + 1 + below(8),
      ]);
      const isKept = (second: number): boolean =>
        second >= begin && !holes.some(([first, last]) => second > first && second < last);
      const inRange = (seconds: readonly number[]): [number[], boolean] => {
        const before = seconds.filter((second) => second <= from).slice(-1);
        return [
          [...before, ...seconds.filter((second) => second > from && second <= to)],
          before.length > 0,
        ];
      };
      const [keptRows, hasHeld] = inRange(all.filter(isKept));
      const [expected, isHeld] = inRange(all);
      const gaps = holes
        .filter(([first, last]) => first >= begin && last >= from && first <= to)
        .map(([first, last]) => gap("not monitored", first, last));
      const kept = keptOf(keptRows, gaps, hasHeld);
      const range = { fromNs: at(from), toNs: at(to) };
      const archived = { ...columns(expected), hasHeld: isHeld };
      const parts = missing(kept, range);
      const whole = filled(kept, parts, archived);
      // The value that the relay has may be older than that of a time without a monitor.
      if (!hasHeld || keptRows[0] === expected[0]) {
        expect([...whole.numbers], JSON.stringify({ keptRows, expected, holes })).toEqual(expected);
        wholes += 1;
      }
      expect(whole.timeNs.every((ns, row, times) => row === 0 || ns > (times[row - 1] ?? 0n))).toBe(
        true,
      );
      expect([...whole.numbers].map(String)).toEqual(
        [...whole.numbers.keys()].map((row) => whole.texts.get(row)),
      );
      expect([...whole.severities]).toEqual([...whole.numbers].map((second) => second % 4));
    }
    expect(wholes).toBeGreaterThan(350);
  });

  it("keeps a gap in which the PV was disconnected, and fills one without a monitor", () => {
    const gaps = [gap("disconnected", 12, 15), gap("not monitored", 20, 25)];
    const kept = keptOf([10, 11, 12, 15, 20, 25, 26], gaps, false);
    const range = { fromNs: at(0), toNs: at(30) };
    const archived = columns([0, 5, 9, 10, 11, 13, 19, 20, 21, 24, 25, 26]);
    const more = { ...archived, gaps: [gap("disconnected", 2, 4), gap("not archived", 11, 13)] };
    const whole = filled(kept, missing(kept, range), more);
    expect([...whole.numbers]).toEqual([0, 5, 9, 10, 11, 12, 15, 20, 21, 24, 25, 26]);
    expect(whole.gaps).toEqual([gap("disconnected", 2, 4), gap("disconnected", 12, 15)]);
    // An archiver that began later has nothing of the gap's begin.
    const late = filled(kept, missing(kept, range), columns([23, 24]));
    expect(late.gaps.at(-1)).toEqual({ ...gap("not monitored", 20, 25), toNs: at(23) });
    // One that has nothing of the PV changes nothing.
    const none = filled(kept, missing(kept, range), columns([]));
    expect(none.gaps).toEqual(gaps);
    expect([...none.numbers]).toEqual([...kept.numbers]);
  });

  it("counts every sample in one bin", () => {
    const kept = {
      ...keptOf([10, 11, 12, 13, 20, 21], [gap("not monitored", 13, 20)], false),
      bins: [
        { rows: 2, updates: 7, severity: 2, status: 3, skipped: 0 },
        { rows: 4, updates: 9, severity: 0, status: 0, skipped: 0 },
      ],
    };
    const range = { fromNs: at(0), toNs: at(30) };
    const archived = {
      ...columns([1, 2, 3, 15]),
      bins: [
        { rows: 3, updates: 30, severity: 0, status: 0, skipped: 0 },
        { rows: 1, updates: 1, severity: 0, status: 0, skipped: 0 },
      ],
    };
    const whole = filled(kept, missing(kept, range), archived);
    expect([...whole.numbers]).toEqual([1, 2, 3, 10, 11, 12, 13, 15, 20, 21]);
    expect(whole.bins.map(({ rows }) => rows)).toEqual([3, 2, 2, 1, 2]);
    expect(whole.bins.map(({ updates }) => updates)).toEqual([30, 7, 2, 1, 7]);
  });

  it("is not asked for where the relay has kept everything", async () => {
    const kept = keptOf([10, 11, 12], [gap("disconnected", 10, 11)], true);
    const ask = vi.fn();
    const range = { fromNs: at(10), toNs: at(30) };
    const given = await withArchive(kept, { Loader, wasm: archiveWasm, range, options: {}, ask });
    expect(given).toBe(kept);
    expect(ask).not.toHaveBeenCalled();
  });

  it("says why the archiver's samples are missing, shows the rest at once, and asks texts for every sample", async () => {
    const kept = keptOf([10, 11], [], false);
    const range = { fromNs: at(0), toNs: at(30) };
    const partial = vi.fn();
    const options = { points: 400, onPartial: partial };
    const failed = Object.assign(new Error("the archiver answered 500"), { code: "FAILED" });
    const ask = vi.fn<AskArchiver>(() => Promise.reject(failed));
    const given = await withArchive(kept, { Loader, wasm: archiveWasm, range, options, ask });
    expect(partial).toHaveBeenCalledExactlyOnceWith(kept);
    expect(given).toEqual({ ...kept, archiveError: failed });
    const questions = ask.mock.calls.map(([text]) => JSON.parse(text) as object);
    const wanted = { pv: "A", from: String(at(0)), to: String(at(10)) };
    expect(questions).toEqual([{ ...wanted, points: 34 }, wanted]);
    for (const [code, isThrown] of [
      ["BAD_NAME", false],
      ["TIMED_OUT", false],
      ["RELAY_LOST", true],
    ] as const) {
      const error = Object.assign(new Error("why"), { code });
      const result = withArchive(kept, {
        Loader,
        wasm: archiveWasm,
        range,
        options,
        ask: () => Promise.reject(error),
      });
      if (isThrown) await expect(result).rejects.toBe(error);
      else expect((await result).archiveError).toBe(code === "BAD_NAME" ? undefined : error);
    }
  });

  it("completes a chart that has joined what the relay keeps, however much later", () => {
    const history = new History();
    const seconds = (ns: bigint): number => Number(ns / S);
    const see = (second: number): void => {
      const stamp = seconds(at(second));
      history.add(stamp, { value: second, stamp, sequence: second });
    };
    see(20);
    const kept = { ...keptOf([18, 19, 20], [], false), sequence: 20 };
    history.join(pastRows(kept), 20, seconds(at(20)));
    // The server restarts meanwhile: its numbers begin again.
    history.add(seconds(at(22)), { value: undefined, stamp: undefined });
    history.add(seconds(at(23)), { value: 23, stamp: seconds(at(23)), sequence: 1 });
    const whole = { ...kept, ...columns([1, 2, 17, 18, 19, 20]) };
    history.join(pastRows({ ...kept, ...whole }), 20, seconds(at(24)), {
      isJoined: true,
    });
    history.add(seconds(at(25)), { value: 25, stamp: seconds(at(25)), sequence: 2 });
    const { y } = history.curve(seconds(at(26)), 1000, 1e9);
    const values = y.filter((value, row) => row === 0 || value !== y[row - 1]);
    expect(values).toEqual([1, 2, 17, 18, 19, 20, null, 23, 25]);
  });
});
