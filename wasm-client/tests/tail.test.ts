/** The past with its live updates, as `usePvHistory` shows it. */

import { afterEach, beforeEach, expect, it } from "vitest";

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
