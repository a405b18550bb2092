/** What a client has missed: what it takes of answers, and what it says when an answer is empty. */

import { expect, it } from "vitest";

import { Client } from "../ts/client/client.js";
import { watchMissed, type PvMissed } from "../ts/missed/index.js";
import type { PvHistory } from "../ts/index.js";
import { continued, joined, kept, readPages } from "../ts/missed/pages.js";
import { client, clock, eachWithFakeRelay, relay, runPromises } from "./faked.js";

eachWithFakeRelay({ N: 0 });

const SELECTION = "{ value { number } skips { behind } }";

/** Ends the connection; the client connects again. */
function cut(): void {
  if (!(client instanceof Client)) throw new TypeError("a client of createClient is needed");
  client.terminate();
}

/** Waits for what the watch does by the system's timers. */
async function until(isSo: () => boolean): Promise<void> {
  await expect
    .poll(async () => {
      clock.advance(20);
      await runPromises();
      return isSo();
    })
    .toBe(true);
}

/** A page of an answer with rows of these times, whose numbers are equal to them. */
function page(head: object, times: readonly number[]): ArrayBuffer {
  const json = new TextEncoder().encode(JSON.stringify(head));
  const length = Math.ceil(json.length / 8) * 8;
  const bytes = new Uint8Array(8 + length + 16 * times.length).fill(0x20, 8, 8 + length);
  bytes.set(json, 8);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length, true);
  view.setUint32(4, times.length, true);
  times.forEach((time, row) => {
    view.setBigInt64(8 + length + 8 * row, BigInt(time), true);
    view.setFloat64(8 + length + 8 * (times.length + row), time, true);
  });
  return bytes.buffer;
}

it("numbers the updates of each PV over several pages", () => {
  const first = {
    runs: [
      [0, 2, 7, 11],
      [1, 2, 8, 4_294_967_295],
    ],
    alarms: [
      [0, 0, 0],
      [1, 2, 3],
      [2, 1, 4],
    ],
    skips: [[1, 0, 3, 0, 0]],
    texts: [[3, "on"]],
    integers: [[2, "9007199254740993"]],
    ends: [[0, 7, 15]],
  };
  const second = {
    runs: [[1, 1, 8, 1]],
    alarms: [[0, 0, 0]],
    absent: [
      [1, "evicted", 5],
      [1, "not monitored", null],
    ],
    ends: [[1, 8, 2]],
    refused: [[2, "not you"]],
  };
  const answers = readPages([page(first, [1, 2, 3, 4]), page(second, [5])], 3);
  const [one, two, three] = answers.map((answer, at) => joined(`PV${String(at)}`, answer.runs));
  expect(one).toMatchObject({
    name: "PV0",
    epochs: Uint32Array.of(7, 7),
    sequences: Uint32Array.of(11, 15),
    timeNs: BigInt64Array.of(1n, 2n),
    severities: Uint8Array.of(0, 2),
    statuses: Uint16Array.of(0, 3),
    skipped: new Map([[1, 3]]),
  });
  expect(two).toMatchObject({
    sequences: Uint32Array.of(4_294_967_295, 0, 1),
    numbers: Float64Array.of(3, 4, 5),
    severities: Uint8Array.of(1, 1, 0),
    texts: new Map([[1, "on"]]),
    integers: new Map([[0, 9_007_199_254_740_993n]]),
  });
  expect(three?.sequences).toHaveLength(0);
  expect(answers.map(({ end }) => end?.sequence)).toEqual([15, 2, undefined]);
  expect(answers[1]?.absent).toEqual([
    { cause: "evicted", count: 5 },
    { cause: "not monitored", count: undefined },
  ]);
  expect(answers[2]?.refused).toBe("not you");
});

it("takes nothing that came after the reconnect, and counts what is absent before it", () => {
  // After 10: 11 and 12 are evicted, 13 and 14 are there, 15 was squashed, 16 is the first live one; 17 was not
  // kept, but this client has it.
  const head = {
    runs: [[0, 3, 7, 13]],
    alarms: [[0, 0, 0]],
    skips: [[2, 0, 1, 0, 0]],
    absent: [
      [0, "not kept", 1],
      [0, "evicted", 2],
    ],
    ends: [[0, 7, 18]],
  };
  const other = { runs: [[0, 1, 7, 18]], ends: [[0, 7, 18]], alarms: [[0, 0, 0]] };
  const pages = [page(head, [13, 14, 16]), page(other, [18])];
  const [answer] = readPages(pages, 1);
  if (answer === undefined) throw new Error("an answer");
  const { absent, first, runs } = kept(answer, { epoch: 7, sequence: 16 });
  expect([...joined("N", runs).sequences]).toEqual([13, 14]);
  expect(first).toEqual([0, 1, 0, 0]);
  expect(absent).toEqual([{ cause: "evicted", count: 2 }]);
  const all = kept(answer, { epoch: 9, sequence: 1 });
  expect([...joined("N", all.runs).sequences]).toEqual([13, 14, 16, 18]);
  expect(all.absent).toHaveLength(2);
});

it("takes from the past of another relay what is after the last update and before the first one", () => {
  const past = (times: readonly number[], change: Partial<PvHistory> = {}): PvHistory => ({
    name: "N",
    timeNs: BigInt64Array.from(times.map(BigInt)),
    numbers: Float64Array.from(times.map((_, row) => row)),
    severities: new Uint8Array(times.length),
    statuses: new Uint16Array(times.length),
    texts: new Map(),
    integers: new Map(),
    skipped: new Map(),
    gaps: [],
    bins: [],
    hasHeld: true,
    keptSinceNs: 5n,
    tick: 1n,
    epoch: 7,
    sequence: 3,
    incomplete: undefined,
    archiveError: undefined,
    ...change,
  });
  const first = { epoch: 7, sequence: 2 };
  const of = (...args: Parameters<typeof past>): readonly [number[], string[]] | undefined => {
    const missed = continued(past(...args), 10n, first);
    return missed && [[...missed.numbers], missed.absent.map(({ cause }) => cause)];
  };
  expect(of([9, 10, 11, 12, 13, 14])).toEqual([[2, 3], []]);
  expect(of([9, 11, 12, 13, 14]), "the last one is not kept").toEqual([[1, 2], []]);
  expect(of([10, 10, 11, 4, 13, 14]), "clocks are set").toEqual([[2, 3], []]);
  expect(of([10, 13, 14]), "nothing was missed").toEqual([[], []]);
  expect(of([10, 11, 13, 14], { skipped: new Map([[3, 1]]) })).toEqual([[1, 2], []]);
  expect(of([13, 14], { keptSinceNs: 13n })).toEqual([[], ["restarted"]]);
  expect(of([10, 13, 14], { sequence: 1 }), "it has not kept the first one yet").toBeUndefined();
  expect(of([10, 13, 14], { epoch: 8 })).toBeUndefined();
  const gap = (cause: "lost" | "disconnected" | "not monitored", fromNs: bigint, toNs: bigint) => ({
    cause,
    fromNs,
    toNs,
  });
  const gaps = [gap("lost", 3n, 5n), gap("disconnected", 10n, 11n), gap("not monitored", 11n, 12n)];
  expect(of([10, 12, 13, 14], { gaps })).toEqual([[1], ["not monitored"]]);
  const numbers = Float64Array.of(1, 2, NaN);
  expect(of([10, 13, 14], { numbers }), "an array").toEqual([[], ["not kept"]]);
});

it("counts what a relay doesn't tell as skipped, and has it after a restart from the past", async () => {
  const missed: PvMissed[] = [];
  const watch = watchMissed(client, (one) => missed.push(one));
  const pv = client.pv<{ value: { number: number }; skips: { behind: number } }>("N", SELECTION);
  pv.subscribe(() => undefined);
  const number = (): number | undefined => pv.getSnapshot()?.value.number;
  relay.set("N", 1);
  await until(() => number() === 1);
  cut();
  for (const value of [2, 3, 4, 5, 6]) relay.set("N", value);
  await until(() => missed.length === 1);
  expect(missed[0]).toMatchObject({
    name: "N",
    sequences: new Uint32Array(),
    absent: [{ cause: "not answered", count: 4 }],
  });
  await until(() => number() === 6 && pv.getSnapshot()?.skips.behind === 4);
  expect(client.inspect("N")?.skipped).toBe(4);

  relay.lose();
  await until(() => client.connection.getSnapshot().state === "lost");
  for (const value of [7, 8]) relay.set("N", value);
  relay.restore();
  await until(() => missed.length === 2);
  expect(missed[1]).toMatchObject({ numbers: Float64Array.of(7), absent: [] });
  expect(watch.getSnapshot()).toEqual({
    updatesTotal: 1,
    absentTotal: 4,
    unknownTotal: 0,
    waiting: 0,
  });

  // Nothing was missed.
  await until(() => number() === 8);
  cut();
  await until(() => client.connection.getSnapshot().state === "open");
  relay.set("N", 9);
  await until(() => number() === 9 && watch.getSnapshot().waiting === 0);
  expect(missed).toHaveLength(2);
  watch.end();
});
