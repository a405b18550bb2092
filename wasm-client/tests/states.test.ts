/** A PV without a connection shows its last value as old, or no value. */

import { beforeEach, describe, expect, it } from "vitest";

import type { PvData } from "../ts/index.js";
import type { FakeRelay } from "../ts/testing/index.js";
import { client, clock, eachWithFakeRelay, relay, settled } from "./faked.js";
import { until } from "./until.js";

let calls: number;

eachWithFakeRelay({ TEMP: { value: 21.5, units: "V" } });

beforeEach(async () => {
  calls = 0;
  const answers = client.pv("TEMP", "{ connection { unresponsive } }");
  answers.subscribe(() => {
    calls += 1;
    answers.getSnapshot();
  });
  await settled();
  clock.advance(20);
  answers.getSnapshot();
});

const temp = (): PvData => client.pv("TEMP").getSnapshot() as PvData;

async function change(pv: Parameters<FakeRelay["set"]>[1]): Promise<void> {
  relay.set("TEMP", pv);
  await settled();
  clock.advance(20);
}

describe("a PV whose server doesn't answer", () => {
  it("is connected and says since when there is no news", async () => {
    expect(temp().connection).toMatchObject({ unresponsive: false, lastHeard: null });
    const before = calls;
    const lastSeen = new Date(clock.epochMs()).toISOString();
    await change({ unresponsive: true });
    await until(() => {
      expect(calls).toBe(before + 1);
    });
    expect(temp().value?.number).toBe(21.5);
    expect(temp().connection).toMatchObject({
      state: "connected",
      unresponsive: true,
      lastHeard: lastSeen,
    });
    await change({ unresponsive: false });
    expect(temp().connection).toMatchObject({ unresponsive: false, lastHeard: null });
  });
});

describe("a PV that may not be read any more", () => {
  it("has no value and says why until it may", async () => {
    await change({ readable: false });
    expect(temp()).toMatchObject({ value: null, time: null });
    expect(temp().status.severity).toBeNull();
    expect(temp().connection).toMatchObject({
      state: "connected",
      readable: false,
      reason: "the IOC gives no read access",
    });
    await change({ readable: true, value: 22 });
    expect(temp().value?.number).toBe(22);
    expect(temp().connection).toMatchObject({ readable: true, reason: null });
  });
});

describe("a lost relay", () => {
  it("dates old values from the last message, not its notice", async () => {
    await change(23);
    const lastSeen = clock.epochMs();
    clock.advance(700);
    relay.lose();
    await settled();
    clock.advance(20);
    const { lastHeard, since, state } = temp().connection;
    expect(state).toBe("relayLost");
    expect(Date.parse(since ?? "") - lastSeen).toBeGreaterThanOrEqual(700);
    expect(Date.parse(lastHeard ?? "")).toBeLessThanOrEqual(lastSeen);
  });
});
