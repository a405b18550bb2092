/** How often charts ask for what they missed, and the gaps that they keep of an outage. */

import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { Tail } from "../ts/history/tail.js";
import type { Pv, PvClient, PvHistory } from "../ts/index.js";
import { POINT_FIELDS, feed, type PointData } from "../ts/widgets/feed.js";
import { History } from "../ts/widgets/history.js";

const START_MS = Date.UTC(2026, 2, 2);

interface Sample {
  readonly timeNs: bigint;
  readonly number: number;
}

/** A relay that keeps each sample of one PV, and a page whose client is connected to it. */
class World {
  state: "open" | "lost" = "open";
  instance = "one";
  questions = 0;
  /** The next questions fail with this code. */
  failure: string | undefined;
  archiveError: Error | undefined;
  #kept: Sample[] = [];
  #sequence = 0;
  #received = 0;
  #skips = { behind: 0, paced: 0 };
  #data: PointData | undefined;
  #ofPv = new Set<() => void>();
  #ofConnection = new Set<() => void>();

  readonly client = {
    connection: {
      getSnapshot: () => ({ state: this.state, relayInstance: this.instance }),
      subscribe: (listener: () => void) => {
        this.#ofConnection.add(listener);
        return () => this.#ofConnection.delete(listener);
      },
    },
    pv: (): Pv<PointData> =>
      ({
        getSnapshot: () => this.#data,
        subscribe: (listener: () => void) => {
          this.#ofPv.add(listener);
          return () => this.#ofPv.delete(listener);
        },
      }) as Partial<Pv<PointData>> as Pv<PointData>,
    inspect: () => ({ sequence: this.#sequence, updatesReceived: this.#received, skipped: 0 }),
    history: async (): Promise<PvHistory> => {
      this.questions += 1;
      const { archiveError, failure } = this;
      if (failure !== undefined) throw Object.assign(new Error("no answer"), { code: failure });
      return Promise.resolve({
        timeNs: BigInt64Array.from(this.#kept, ({ timeNs }) => timeNs),
        numbers: Float64Array.from(this.#kept, ({ number }) => number),
        severities: new Uint8Array(this.#kept.length),
        skipped: new Map(),
        gaps: [],
        bins: [],
        keptSinceNs: this.#kept[0]?.timeNs,
        sequence: this.#kept.length === 0 ? undefined : this.#sequence,
        archiveError,
      } as Partial<PvHistory> as PvHistory);
    },
  } as unknown as PvClient;

  /** The source makes `made` updates; the page gets the last `received`, and has missed `behind` of the others. */
  update(number: number, { made = 1, received = 1, behind = 0, stampMs = Date.now() } = {}): void {
    const timeNs = BigInt(stampMs) * 1_000_000n;
    for (let left = made; left > 0; left -= 1) this.#kept.push({ timeNs, number });
    this.#sequence += made;
    this.#received += received;
    this.#skips = { ...this.#skips, behind: this.#skips.behind + behind };
    this.#show(number, { seconds: stampMs / 1000, nanoseconds: (stampMs % 1000) * 1e6 });
  }

  lose(): void {
    this.state = "lost";
    for (const listener of this.#ofConnection) listener();
    this.#show(undefined, null);
  }

  /** A relay is there again that has kept nothing. */
  restore(instance: string): void {
    this.instance = instance;
    this.#kept = [];
    this.#sequence = 0;
    this.state = "open";
    for (const listener of this.#ofConnection) listener();
  }

  #show(number: number | undefined, time: PointData["time"]): void {
    const isThere = number !== undefined;
    this.#data = {
      value: isThere ? { number } : null,
      time,
      display: null,
      connection: {
        state: isThere ? "connected" : "relayLost",
        connected: isThere,
        unresponsive: false,
        readable: true,
        lastHeard: null,
      },
      skips: this.#skips,
    };
    for (const listener of this.#ofPv) listener();
  }
}

let world: World;
let ended: AbortController;

beforeEach(() => {
  vi.useFakeTimers({ now: START_MS });
  world = new World();
  ended = new AbortController();
});

afterEach(() => {
  ended.abort();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function follow(): Tail {
  const tail = new Tail(world.client, "N", { from: "-10m" }, () => undefined);
  ended.signal.addEventListener("abort", () => {
    tail.end();
  });
  return tail;
}

/** A strip chart; returns its values, each once, with null for a gap. */
function strip(): () => (number | null)[] {
  const history = new History();
  const { client } = world;
  const point = client.pv<PointData>("N", POINT_FIELDS);
  const { show, take } = feed({
    client,
    name: "N",
    point,
    history,
    signal: ended.signal,
    seconds: () => 600,
    onPast: () => undefined,
  });
  show(600);
  ended.signal.addEventListener("abort", point.subscribe(take));
  take();
  return () => {
    const { y } = history.curve(Date.now() / 1000, 1e6, 1e9);
    return y.filter((value, at) => at === 0 || value !== y[at - 1]);
  };
}

const CHARTS = [
  ["usePvHistory", follow],
  ["StripChart", strip],
] as const;

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

it.each(CHARTS)(
  "%s asks once for a PV whose updates are left out by max_rate, and again for those it missed",
  async (_, open) => {
    world.update(0);
    open();
    for (let at = 1; at <= 200; at += 1) {
      await pass(100);
      world.update(at, { made: 10 });
    }
    await pass(1000);
    expect(world.questions).toBe(1);
    world.update(201, { made: 10, behind: 9 });
    await pass(1000);
    expect(world.questions, "it was behind").toBe(2);
    world.update(202, { made: 10, received: 10 });
    await pass(1000);
    expect(world.questions, "it didn't run").toBe(3);
  },
);

it("asks once a minute, and no more often later, while updates are missed again and again", async () => {
  world.update(0);
  follow();
  for (let second = 1; second <= 300; second += 1) {
    await pass(1000);
    world.update(second, { made: 10, behind: 9 });
  }
  const lately = world.questions;
  for (let second = 1; second <= 240; second += 1) {
    await pass(1000);
    world.update(300 + second, { made: 10, behind: 9 });
  }
  expect(world.questions - lately, "in four minutes").toBeLessThanOrEqual(4);
  await pass(60_000);
  const before = world.questions;
  await pass(130_000);
  world.update(1000, { made: 10, behind: 9 });
  await pass(10);
  world.update(1001, { made: 10, behind: 9 });
  await pass(1000);
  expect(world.questions - before, "at once after a time without").toBe(2);
});

it.each([
  ["the archiver has failed and the relay was restarted", "two", false],
  ["no question was answered and the relay kept nothing", "one", true],
])("keeps the gap of an outage when %s", async (_, instance, isRefused) => {
  world.archiveError = new Error("the archiver doesn't answer");
  if (isRefused) world.failure = "NOT_SUPPORTED";
  world.update(1);
  const tail = follow();
  const values = strip();
  for (const number of [2, 3]) {
    await pass(1000);
    world.update(number);
  }
  const stampMs = Date.now();
  await pass(1000);
  expect([...tail.shown.numbers]).toEqual([1, 2, 3]);
  world.lose();
  await pass(30_000);
  world.failure = undefined;
  world.restore(instance);
  // It has not changed meanwhile.
  world.update(3, { stampMs });
  await pass(30_000);
  world.update(4);
  await pass(1000);
  expect([...tail.shown.numbers]).toEqual([1, 2, 3, 4]);
  const ns = (ms: number): bigint => BigInt(ms) * 1_000_000n;
  expect(tail.shown.gaps).toEqual([
    { cause: "disconnected", fromNs: ns(START_MS + 3000), toNs: ns(START_MS + 33_000) },
  ]);
  expect(values()).toEqual([1, 2, 3, null, 3, 4]);
});

it("asks nothing from a hidden page after the archiver has failed", async () => {
  const page = {
    hidden: false,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  };
  vi.stubGlobal("document", page);
  world.archiveError = new Error("the archiver doesn't answer");
  world.update(1);
  follow();
  await pass(1000);
  page.hidden = true;
  world.update(2, { made: 10, behind: 9 });
  await pass(120_000);
  expect(world.questions).toBe(1);
});
