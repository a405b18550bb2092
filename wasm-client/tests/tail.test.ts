/** The past with its live updates, as `usePvHistory` shows it, and what remains of curves that get too long. */

import { afterEach, beforeEach, expect, it } from "vitest";

import { folded } from "../ts/history/fold.js";
import { Tail } from "../ts/history/tail.js";
import type { LivePvHistory, PvClient } from "../ts/index.js";
import {
  createFakeClock,
  createFakeRelay,
  type FakeClock,
  type FakeRelay,
} from "../ts/testing/index.js";
import { wasm } from "./golden.js";

let startMs: number;
let clock: FakeClock;
let relay: FakeRelay;
let client: PvClient;
let tail: Tail | undefined;

beforeEach(async () => {
  startMs = Date.now();
  clock = createFakeClock(startMs);
  relay = createFakeRelay({ clock, ...(wasm && { wasm }) });
  client = relay.client();
  await client.ready;
});

afterEach(() => {
  tail?.end();
  client.dispose();
});

function update(value: number): void {
  clock.advance(100);
  relay.set("N", value);
}

const shown = (): LivePvHistory => (tail as Tail).shown;

async function until(isSo: () => boolean, what: string, stepMs = 20): Promise<void> {
  for (let turn = 0; turn < 500; turn += 1) {
    if (isSo()) return;
    clock.advance(stepMs);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  expect.fail(`never ${what}: ${[...shown().numbers].join(" ")}`);
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at);

it("has each update once: those before it began, those since, and those that the relay's loss hid", async () => {
  for (const value of range(1, 20)) update(value);
  tail = new Tail(client, "N", { from: "-10m" }, () => undefined);
  expect(shown().isLoading).toBe(true);
  await until(() => shown().numbers.length === 20, "the past");
  for (const value of range(21, 30)) {
    update(value);
    await until(() => shown().numbers.at(-1) === value, String(value));
  }
  expect([...shown().numbers]).toEqual(range(1, 30));
  expect(shown()).toMatchObject({ isLoading: false, error: undefined, gaps: [] });
  relay.lose();
  await until(() => shown().gaps.length === 1, "a gap");
  for (const value of range(31, 40)) update(value);
  relay.restore();
  await until(() => shown().numbers.length === 40, "what was missed");
  update(41);
  await until(() => shown().numbers.length === 41, "live again");
  expect([...shown().numbers]).toEqual(range(1, 41));
  expect(shown().timeNs.every((time, at, all) => at === 0 || time > (all[at - 1] ?? 0n))).toBe(
    true,
  );
});

it("has updates without a time stamp when they arrive, once, after the past and after the relay's loss", async () => {
  const unstamped = (value: number): void => {
    clock.advance(100);
    relay.set("N", { value, timeMs: null });
  };
  const stamped = (value: number): void => {
    clock.advance(100);
    const arrivedMs = Date.now();
    // Its stamp is later than the arrival of the one before, and earlier than that of the next.
    let timeMs = arrivedMs;
    while (timeMs === arrivedMs) timeMs = Date.now();
    relay.set("N", { value, timeMs });
  };
  for (const value of range(1, 3)) stamped(value);
  for (const value of range(4, 6)) unstamped(value);
  tail = new Tail(client, "N", { from: "-10m" }, () => undefined);
  await until(() => !shown().isLoading && shown().numbers.at(-1) === 6, "the past");
  expect([...shown().numbers], "earlier ones have no place in time").toEqual([1, 2, 3, 6]);
  unstamped(7);
  await until(() => shown().numbers.at(-1) === 7, "an update");
  stamped(8);
  await until(() => shown().numbers.at(-1) === 8, "a time stamp");
  unstamped(9);
  await until(() => shown().numbers.at(-1) === 9, "none again");
  relay.lose();
  await until(() => shown().gaps.length === 1, "a gap");
  stamped(10);
  unstamped(11);
  relay.restore();
  await until(() => shown().numbers.at(-1) === 11, "live again");
  await until(() => shown().numbers.includes(10), "what was missed");
  unstamped(12);
  await until(() => shown().numbers.at(-1) === 12, "another update");
  expect([...shown().numbers]).toEqual([1, 2, 3, 6, 7, 8, 9, 10, 11, 12]);
  expect([...shown().timeNs].every((time) => time > 0n)).toBe(true);
});

it("shows only the past with an end, and says why it is missing", async () => {
  for (const value of range(1, 5)) update(value);
  tail = new Tail(client, "N", { to: "now" }, () => undefined);
  await until(() => !shown().isLoading, "an answer");
  update(6);
  expect([...shown().numbers]).toEqual(range(1, 5));
  tail.end();
  tail = new Tail(client, "N", { from: "yesterday" }, () => undefined);
  await until(() => shown().error !== undefined, "an error");
  expect(shown()).toMatchObject({ isLoading: false, error: { code: "BAD_VALUE" } });
});

it("has a gap from when the relay noticed it until the PV is there again, once", async () => {
  for (const value of range(1, 3)) update(value);
  relay.set("N", { state: "disconnected" });
  const begin = BigInt(startMs + 300) * 1_000_000n;
  clock.advance(60_000);
  tail = new Tail(client, "N", { from: "-10m" }, () => undefined);
  await until(() => !shown().isLoading, "the past");
  expect(shown().gaps).toEqual([{ cause: "disconnected", fromNs: begin, toNs: undefined }]);
  relay.set("N", { state: "connected" });
  await until(() => shown().gaps[0]?.toNs !== undefined, "the gap's end");
  update(4);
  await until(() => shown().numbers.at(-1) === 4, "live again");
  const { gaps } = shown();
  expect(gaps).toHaveLength(1);
  expect(gaps[0]?.fromNs).toBe(begin);
});

it("ends a gap that has ended before the relay's answer came", async () => {
  for (const value of range(1, 3)) update(value);
  relay.set("N", { state: "disconnected" });
  const begin = BigInt(startMs + 300) * 1_000_000n;
  clock.advance(60_000);
  let answer: (() => void) | undefined;
  const late = {
    connection: client.connection,
    pv: client.pv.bind(client),
    inspect: client.inspect.bind(client),
    history: async (...question: Parameters<PvClient["history"]>) => {
      const past = await client.history(...question);
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      return past;
    },
  } as PvClient;
  tail = new Tail(late, "N", { from: "-10m" }, () => undefined);
  await until(() => answer !== undefined, "an answer");
  relay.set("N", { state: "connected" });
  await until(() => shown().gaps[0]?.toNs !== undefined, "the gap's end");
  answer?.();
  await until(() => !shown().isLoading, "the past");
  const { gaps } = shown();
  expect(gaps).toHaveLength(1);
  expect(gaps[0]?.fromNs).toBe(begin);
  expect(gaps[0]?.toNs).toBeGreaterThanOrEqual(begin);
});

/** The same client, whose questions are counted and may fail. Its relay is always the same one. */
function counting(before: (questions: number) => void): PvClient {
  let questions = 0;
  const { connection } = client;
  return {
    connection: {
      subscribe: connection.subscribe.bind(connection),
      getSnapshot: () => ({ ...connection.getSnapshot(), relayInstance: "one" }),
    },
    pv: client.pv.bind(client),
    inspect: client.inspect.bind(client),
    history: (...question: Parameters<PvClient["history"]>) => {
      questions += 1;
      before(questions);
      return client.history(...question);
    },
  } as PvClient;
}

it("asks seldom when the connection is lost again and again, and has each update in the end", async () => {
  for (const value of range(1, 5)) update(value);
  let questions = 0;
  tail = new Tail(
    counting((count) => (questions = count)),
    "N",
    { from: "-10m" },
    () => undefined,
  );
  await until(() => shown().numbers.length === 5, "the past");
  const losses = 20;
  for (let loss = 1; loss <= losses; loss += 1) {
    relay.lose();
    await until(() => shown().gaps.length > 0, "a gap", 500);
    update(5 + loss);
    relay.restore();
    await until(() => shown().numbers.at(-1) === 5 + loss, "live again", 500);
  }
  await expect
    .poll(() => {
      clock.advance(20);
      return shown().gaps;
    })
    .toEqual([]);
  expect([...shown().numbers]).toEqual(range(1, 5 + losses));
  expect(questions).toBeLessThan(losses / 2);
});

it("asks again after a question that wasn't answered, but not after one that was refused", async () => {
  for (const value of range(1, 5)) update(value);
  for (const [code, numbers] of [
    ["TIMED_OUT", range(1, 5)],
    ["NOT_ALLOWED", [5]],
  ] as const) {
    let questions = 0;
    const failing = counting((count) => {
      questions = count;
      if (count === 1) throw Object.assign(new Error("no answer"), { code });
    });
    tail = new Tail(failing, "N", { from: "-10m" }, () => undefined);
    await until(() => shown().error !== undefined, "an error");
    await until(() => shown().numbers.length === numbers.length, "what is known");
    expect([...shown().numbers]).toEqual(numbers);
    expect([code, questions, shown().error?.code]).toEqual(
      code === "TIMED_OUT" ? [code, 2, undefined] : [code, 1, code],
    );
    tail.end();
  }
});

/** A tail whose PV is what `show` says. */
function byHand(from: string): (data: object) => void {
  let data: object | undefined;
  let notify = (): void => undefined;
  const { connection } = client;
  const pv = {
    getSnapshot: () => data,
    subscribe: (listener: () => void) => {
      notify = listener;
      return () => undefined;
    },
  };
  const own = {
    connection,
    pv: () => pv,
    inspect: client.inspect.bind(client),
    history: client.history.bind(client),
  } as unknown as PvClient;
  tail = new Tail(own, "N", { from }, () => undefined);
  return (shownData) => {
    data = shownData;
    notify();
  };
}

const connected = { state: "connected", connected: true, readable: true, unresponsive: false };

/** A PV whose value has a time stamp. */
const dataOf = (number: number, ms: number, severity = "NO_ALARM"): object => ({
  value: { number },
  time: { seconds: ms / 1000, nanoseconds: (ms % 1000) * 1e6 },
  status: { severity },
  connection: connected,
  skips: { behind: 0, paced: 0 },
});

it("has the begin of a long time, its peak and its alarm when there were many updates", () => {
  const show = byHand("-1d");
  const count = 24_000;
  const begin = startMs - 100 * count;
  for (let at = 0; at < count; at += 1) {
    const isPeak = at === 1001;
    show(dataOf(isPeak ? 99 : at % 3, begin + 100 * at, at === 2002 ? "MAJOR" : "NO_ALARM"));
  }
  const { numbers, severities, timeNs } = shown();
  expect(timeNs.length).toBeLessThanOrEqual(20_000);
  expect(timeNs[0]).toBe(BigInt(begin) * 1_000_000n);
  expect(timeNs[numbers.indexOf(99)]).toBe(BigInt(begin + 100_100) * 1_000_000n);
  expect(timeNs[severities.indexOf(2)]).toBe(BigInt(begin + 200_200) * 1_000_000n);
  expect([...numbers.slice(-3)]).toEqual([0, 1, 2]);
  expect(timeNs.every((time, at, all) => at === 0 || time > (all[at - 1] ?? 0n))).toBe(true);
});

it("drops what is older than the time that is shown, but for the value that held at its begin", () => {
  const show = byHand("-10m");
  const count = 20_001;
  const begin = startMs - 100 * count;
  for (let at = 0; at < count; at += 1) show(dataOf(at, begin + 100 * at));
  const { timeNs } = shown();
  const [first = 0n, second = 0n] = timeNs;
  const edge = BigInt(Date.now() - 600_000) * 1_000_000n;
  expect(first).toBeLessThanOrEqual(edge);
  expect(second).toBeGreaterThan(edge - 60_000_000_000n);
  expect(timeNs.length).toBeGreaterThan(5000);
  expect(timeNs.length).toBeLessThanOrEqual(6002);
});

it("begins a gap after the last update of an IOC whose clock is ahead", () => {
  const gone = { connection: { ...connected, state: "disconnected", connected: false } };
  for (const aheadMs of [0, 30_000, 3_600_000]) {
    const show = byHand("-10m");
    const now = Date.now();
    for (const value of [1, 2, 3]) show(dataOf(value, now - 10_000 + 1000 * value + aheadMs));
    show(dataOf(4, now + aheadMs));
    show({ ...dataOf(4, now + aheadMs), ...gone });
    const begin = shown().gaps[0]?.fromNs ?? 0n;
    expect(begin, String(aheadMs)).toBeGreaterThan(shown().timeNs.at(-1) ?? 0n);
    expect(Number(begin / 1_000_000n) - now - aheadMs).toBeLessThan(1000);
    show(dataOf(4, now + aheadMs));
    const { gaps, numbers } = shown();
    expect(gaps).toHaveLength(1);
    expect(gaps[0]?.toNs).toBeGreaterThanOrEqual(begin);
    expect(numbers.at(-1)).toBe(4);
  }
  // A single wrong time stamp doesn't move the gap into the future.
  const show = byHand("-10m");
  show(dataOf(1, Date.now()));
  show(dataOf(2, Date.now() + 3_600_000));
  show({ ...dataOf(2, Date.now()), ...gone });
  const begin = Number((shown().gaps[0]?.fromNs ?? 0n) / 1_000_000n);
  expect(begin - Date.now()).toBeLessThan(1000);
});

interface Row {
  readonly at: number;
  readonly number: number;
  readonly severity: number;
}

const rowsOf = (numbers: readonly number[]): Row[] =>
  numbers.map((number, at) => ({ at, number, severity: at === 9 ? 2 : 0 }));

const READER = {
  numberOf: ({ number }: Row) => number,
  severityOf: ({ severity }: Row) => severity,
};

const kept = (numbers: readonly number[], most = 1000): number[] =>
  folded(rowsOf(numbers), most, READER).map(({ at }) => at);

const newer = (count: number): number[] => Array.from({ length: count }, () => 0);

it("keeps the first, lowest, highest and last of each eight rows, the worst alarm, and the newer half", () => {
  const older = [3, 4, 1, 5, 9, 2, 6, 5, 0, 0, 0, 0, 0, 0, 7, 0];
  const rest = Array.from({ length: 16 }, (_, at) => 16 + at);
  expect(kept([...older, ...newer(16)])).toEqual([0, 2, 4, 7, 8, 9, 14, 15, ...rest]);
});

it("keeps gaps, and shows no value in one", () => {
  // A second gap hides the value between them.
  const older = [1, 1, 1, NaN, 8, NaN, 2, 3];
  expect(kept([...older, ...newer(8)]).slice(0, 5)).toEqual([0, 2, 3, 6, 7]);
  expect(kept([...newer(8).fill(NaN), ...newer(8)]).slice(0, 2)).toEqual([0, 8]);
});

it("keeps the rows on both sides of a gap that isn't a row", () => {
  const rows = rowsOf([...Array.from({ length: 8 }, (_, at) => at), ...newer(8)]);
  const cut = { ...READER, partOf: ({ at }: Row) => (at < 3 ? 0 : 1) };
  expect(
    folded(rows, 1000, cut)
      .map(({ at }) => at)
      .slice(0, 4),
  ).toEqual([0, 2, 3, 7]);
});

it("drops the oldest rows where no row is like another", () => {
  const rows = rowsOf(newer(1000));
  const separate = { ...READER, partOf: ({ at }: Row) => at };
  const rest = folded(rows, 800, separate);
  expect(rest).toHaveLength(720);
  expect(rest.at(-1)).toBe(rows.at(-1));
});
