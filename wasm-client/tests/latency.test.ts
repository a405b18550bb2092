/** Latencies are measured by one clock, of updates that came while there were listeners. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Client } from "../ts/client/client.js";
import {
  measureLatency,
  percentile,
  watchRelayClock,
  type Histogram,
} from "../ts/latency/index.js";
import {
  createFakeClock,
  createFakeRelay,
  type FakeClock,
  type FakeRelay,
} from "../ts/testing/index.js";
import { runPromises } from "./faked.js";
import { wasm } from "./golden.js";
import { until } from "./until.js";

const RELAY_AHEAD_MS = 5000;

let clock: FakeClock;
let relay: FakeRelay;
let client: Client;
let ends: (() => void)[];

/** The browser's clock, which is late. */
const times = { epochMs: () => clock.epochMs() - RELAY_AHEAD_MS, now: () => clock.now() };

beforeEach(async () => {
  clock = createFakeClock();
  relay = createFakeRelay({ clock, ...(wasm && { wasm }), pvs: { TEMP: { value: 21.5 } } });
  client = new Client(
    { url: "ws://relay.test/ws", webSocket: relay.webSocket, ...(wasm && { wasm }) },
    { clock: { ...clock, ...times } },
  );
  await client.ready;
  ends = [];
});

afterEach(() => {
  for (const end of ends) end();
  client.dispose();
});

describe("the relay's clock", () => {
  it("is known from answered pings, but not of a lost relay", async () => {
    const known = watchRelayClock(client, times);
    ends.push(known.subscribe(() => undefined));
    expect(known.getSnapshot()).toBeUndefined();
    await runPromises();
    clock.advance(1000);
    expect(known.getSnapshot()).toMatchObject({ uncertaintyMs: 0, roundTripMs: 0 });
    expect(known.getSnapshot()?.offsetMs).toBeCloseTo(RELAY_AHEAD_MS, 2);
    relay.lose();
    clock.advance(1000);
    expect(known.getSnapshot()).toBeUndefined();
  });

  it("is asked of a client of createClient only", () => {
    expect(() => watchRelayClock(Object.create(null) as Client)).toThrow(TypeError);
  });
});

describe("latency", () => {
  /** Until listeners were told of what was there already. */
  async function firstValue(): Promise<void> {
    let called = false;
    ends.push(
      client.pv("TEMP", "{ value { number } }").subscribe(() => {
        called = true;
      }),
    );
    await until(() => {
      expect(called).toBe(true);
    });
  }

  /** A change of the PV that takes so long until listeners are called. */
  async function change(value: number, ms: number, timeMs = clock.epochMs()): Promise<void> {
    let called = false;
    const pv = client.pv("TEMP", "{ value { number } }");
    const end = pv.subscribe(() => {
      called = true;
    });
    relay.set("TEMP", { value, timeMs });
    clock.advance(ms);
    await until(() => {
      expect(called).toBe(true);
    });
    end();
  }

  it("is told by the relay's clock, without what was there before", async () => {
    const latency = measureLatency(client, ["TEMP"], {}, times);
    ends.push(latency.subscribe(() => undefined));
    await firstValue();
    clock.advance(1000);
    expect(latency.getSnapshot().stampToCallback.count).toBe(0);
    await change(22, 30);
    await until(() => {
      clock.advance(1000);
      expect(latency.getSnapshot().stampToPaint.count).toBe(1);
    });
    const { callbackToPaint, fromTheFuture, stampToCallback } = latency.getSnapshot();
    expect(percentile(stampToCallback, 50)).toBe(50);
    expect(stampToCallback.sumMs).toBeCloseTo(30, 2);
    expect(callbackToPaint.count).toBe(1);
    expect(fromTheFuture).toBe(0);
    latency.reset();
    expect(latency.getSnapshot().stampToCallback.count).toBe(0);
  });

  it("counts time stamps in the future separately", async () => {
    const latency = measureLatency(client, ["TEMP"], {}, times);
    ends.push(latency.subscribe(() => undefined));
    await firstValue();
    clock.advance(1000);
    await change(22, 30, clock.epochMs() + 60_000);
    await until(() => {
      clock.advance(1000);
      expect(latency.getSnapshot().fromTheFuture).toBe(1);
    });
    expect(latency.getSnapshot().stampToCallback.count).toBe(0);
  });

  it("takes stamps within the clocks' uncertainty as present", async () => {
    // As if the whole round trip were the way to the relay: the offset is wrong by half of it.
    const { getSnapshot } = client.stats;
    vi.spyOn(client.stats, "getSnapshot").mockImplementation(() => ({
      ...getSnapshot(),
      roundTripMs: 40,
    }));
    const latency = measureLatency(client, ["TEMP"], {}, times);
    ends.push(latency.subscribe(() => undefined));
    await firstValue();
    clock.advance(1000);
    expect(latency.getSnapshot().clock?.uncertaintyMs).toBe(20);
    await change(22, 0);
    await change(23, 0, clock.epochMs() + 1000);
    await until(() => {
      clock.advance(1000);
      expect(latency.getSnapshot().fromTheFuture).toBe(1);
    });
    expect(latency.getSnapshot().stampToPaint.count).toBe(1);
    expect(percentile(latency.getSnapshot().stampToCallback, 99)).toBe(1);
  });

  it("is not counted before the relay's clock is known", async () => {
    const latency = measureLatency(client, ["TEMP"], {}, times);
    ends.push(latency.subscribe(() => undefined));
    await firstValue();
    await change(22, 30);
    await runPromises();
    clock.advance(1000);
    expect(latency.getSnapshot().clock).toBeDefined();
    expect(latency.getSnapshot().stampToCallback.count).toBe(0);
  });
});

describe("percentile", () => {
  const of = (counts: number[]): Histogram => ({
    endsMs: [1, 10, Infinity],
    counts,
    count: counts.reduce((sum, some) => sum + some, 0),
    sumMs: 0,
  });

  it("is the upper bound of the bucket that holds the percentage", () => {
    expect(percentile(of([50, 49, 1]), 50)).toBe(1);
    expect(percentile(of([50, 49, 1]), 99)).toBe(10);
    expect(percentile(of([50, 49, 1]), 99.5)).toBe(Infinity);
    expect(percentile(of([0, 0, 0]), 50)).toBeUndefined();
    expect(percentile(of([0, 5, 0]), 0)).toBe(10);
  });
});
