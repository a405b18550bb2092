/**
 * Nothing is shown that the server doesn't send: no time, alarm, precision or right to write. A PV without a connection
 * shows its last value as old, or no value.
 */

import { beforeEach, describe, expect, it, vi } from "vitest";

import { createGraphqlClient } from "../ts/graphql/index.js";
import type { PvData } from "../ts/index.js";
import type { FakeRelay, FakeValue } from "../ts/testing/index.js";
import { client, clock, eachWithFakeRelay, relay, runPromises } from "./faked.js";
import { until } from "./until.js";

describe("what the server doesn't send", () => {
  eachWithFakeRelay({
    "pva://BARE": { value: 0.1, timeMs: null, severity: null },
    "pva://WAVE": { value: Float64Array.of(3.5, 0.1) },
    "pva://SINGLE": { value: 0.10000000149011612, type: "Float32", units: "V" },
    "pva://FLAG": { value: true },
    "pva://FLAGS": { value: Uint8Array.of(1, 0), type: "Boolean" },
    "pva://ROUND": { value: 0.1, precision: 0 },
    "pva://OPEN": { value: 1, mutable: null },
    FIXED: { value: 1, mutable: false },
    "pva://CLOSED": { value: 1, mutable: null },
    "pva://X/a": { state: "notFound", missingField: 'the structure has no field "a"; it has: b' },
    "pva://X/points": { value: [{ x: 1 }, { x: 2 }] as unknown as FakeValue, type: "Structure" },
  });

  /** Lets time pass, in which the relay answers pings. */
  async function pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) {
      clock.advance(500);
      await runPromises();
    }
  }

  /** Listens, and gives what is seen from now on. */
  async function watch(name: string): Promise<() => PvData> {
    client.pv(name, "{ id }").subscribe(() => undefined);
    await runPromises();
    return () => client.pv(name).getSnapshot() as PvData;
  }

  describe("a number without a precision", () => {
    it("reads as the shortest text that gives the same number again", async () => {
      expect((await watch("pva://BARE"))().value?.string).toBe("0.1");
      expect((await watch("pva://WAVE"))().value?.string).toBe("[3.5, 0.1]");
      expect((await watch("pva://SINGLE"))().value?.string).toBe("0.1");
      expect((await watch("pva://ROUND"))().value?.string).toBe("0");
    });

    it("does so in GraphQL too", async () => {
      const graphql = createGraphqlClient(client);
      const { data } = await graphql.execute({
        query: `{
        bare: getChannel(id: "pva://BARE") { value { string } time { datetime } status { quality severity } }
        single: getChannel(id: "pva://SINGLE") { value { string(units: true) } }
        wave: getChannel(id: "pva://WAVE") { value { string stringArray } }
        flag: getChannel(id: "pva://FLAG") { value { string float } }
        flags: getChannel(id: "pva://FLAGS") { value { string stringArray } }
        open: getChannel(id: "pva://OPEN") { status { mutable writable } display { role } }
        fixed: getChannel(id: "FIXED") { status { mutable writable } display { role widget } }
      }`,
      });
      expect(data).toEqual({
        bare: {
          value: { string: "0.1" },
          time: null,
          status: { quality: "UNDEFINED", severity: null },
        },
        single: { value: { string: "0.1 V" } },
        wave: { value: { string: "[3.5, 0.1]", stringArray: ["3.5", "0.1"] } },
        flag: { value: { string: "true", float: 1 } },
        flags: { value: { string: "[true, false]", stringArray: ["true", "false"] } },
        open: { status: { mutable: true, writable: null }, display: { role: "RW" } },
        fixed: {
          status: { mutable: false, writable: false },
          display: { role: "RO", widget: "TEXTUPDATE" },
        },
      });
    });
  });

  describe("a PV without time stamp and alarm", () => {
    it("has neither 1970 nor NO_ALARM", async () => {
      const bare = await watch("pva://BARE");
      expect(bare().time).toBeNull();
      expect(bare().status).toMatchObject({
        quality: "UNDEFINED",
        severity: null,
        alarmStatus: null,
        message: "",
      });
      relay.set("pva://BARE", { severity: "MINOR", alarmStatus: 4, timeMs: 1000 });
      expect(bare().status).toMatchObject({ quality: "WARNING", alarmStatus: "HIGH" });
      expect(bare().time?.seconds).toBe(1);
      relay.set("pva://BARE", { severity: null, timeMs: null });
      expect(bare().status.severity).toBeNull();
      expect(bare().time).toBeNull();
    });
  });

  describe("an object that is gone", () => {
    const graphql = (): ReturnType<typeof createGraphqlClient> => createGraphqlClient(client);

    /** What an application has that merges results, and the results. */
    async function merge(fields: string): Promise<{ known: object; results: object[] }> {
      const merged = { known: {}, results: [] as object[] };
      graphql().subscribe(
        { query: `subscription { pv: subscribeChannel(id: "pva://BARE") { ${fields} } }` },
        {
          next: ({ data }) => {
            const { pv } = data as { pv: object };
            merged.results.push(pv);
            const news = Object.entries(pv).filter(([, value]) => value !== null);
            Object.assign(merged.known, Object.fromEntries(news));
          },
          error: () => undefined,
          complete: () => undefined,
        },
      );
      await runPromises();
      return merged;
    }

    it.each([
      ["of few fields", ""],
      ["of many fields", "a: id b: id c: id d: id"],
    ])("is told once with null fields, in a result %s", async (_, more) => {
      relay.set("pva://BARE", { timeMs: 1000 });
      const merged = await merge(`${more} time { __typename at: seconds } value { float }`);
      const shows = (known: object): Promise<void> =>
        vi.waitFor(() => {
          clock.advance(20);
          expect(merged.known).toMatchObject(known);
        });
      await shows({ time: { __typename: "ChannelTime", at: 1 }, value: { float: 0.1 } });
      relay.set("pva://BARE", { value: 2, timeMs: null });
      await shows({ time: { __typename: "ChannelTime", at: null }, value: { float: 2 } });
      relay.set("pva://BARE", { value: 3, timeMs: null });
      await shows({ value: { float: 3 } });
      expect(merged.results.at(-1)).toMatchObject({ time: null, value: { float: 3 } });
      relay.set("pva://BARE", { readable: false });
      await shows({ value: { float: null } });
    });
  });

  describe("a boolean", () => {
    it("reads true or false and is still 1 or 0 as a number", async () => {
      const flag = await watch("pva://FLAG");
      expect(flag().value).toMatchObject({ string: "true", number: 1, float: 1 });
      relay.set("pva://FLAG", false);
      expect(flag().value).toMatchObject({ string: "false", number: 0 });
    });
  });

  describe("the right to write", () => {
    it("is unknown again a while after a refused put", async () => {
      const closed = await watch("pva://CLOSED");
      const unknown = { mutable: true, writable: null };
      relay.onPut = () => ({ code: "NO_ACCESS", message: "not permitted" });
      await client.put("pva://CLOSED", 2);
      expect(closed().status.writable).toBe(false);
      await pass(4000);
      expect(closed().status.writable).toBe(false);
      await pass(6000);
      expect(closed().status).toMatchObject(unknown);
      relay.onPut = undefined;
      await client.put("pva://CLOSED", 2);
      await pass(10_000);
      expect(closed().status, "an accepted put counts").toMatchObject({ writable: true });
      relay.onPut = () => ({ code: "NOT_ALLOWED", message: "rule 1 forbids it" });
      await client.put("pva://CLOSED", 2);
      expect(closed().status.writable).toBe(false);
      await pass(10_000);
      expect(closed().status).toMatchObject(unknown);
    });

    it("is unknown until a put is tried, and then remembered", async () => {
      const [open, closed] = [await watch("pva://OPEN"), await watch("pva://CLOSED")];
      expect(open().status).toMatchObject({ mutable: true, writable: null });
      await client.put("pva://OPEN", 2);
      expect(open().status).toMatchObject({ mutable: true, writable: true });
      relay.onPut = () => ({ code: "NO_ACCESS", message: "not permitted" });
      const { ok } = await client.put("pva://CLOSED", 2);
      expect(ok).toBe(false);
      expect(closed().status).toMatchObject({ mutable: false, writable: false });
      relay.set("pva://CLOSED", { state: "disconnected" });
      relay.set("pva://CLOSED", { state: "connected" });
      expect(closed().status, "reported again").toMatchObject({ mutable: true, writable: null });
    });
  });

  describe("a field", () => {
    it("that is not there is not found, and says which there are", async () => {
      const field = await watch("pva://X/a");
      expect(field().connection).toMatchObject({
        state: "notFound",
        connected: false,
        reason: 'the structure has no field "a"; it has: b',
      });
      expect(field().status.message).toBe('the structure has no field "a"; it has: b');
      relay.set("pva://X/a", 5);
      expect(field().connection).toMatchObject({ state: "connected", reason: null });
    });

    it("that is an array of structures is an array", async () => {
      const points = await watch("pva://X/points");
      expect(points().value).toMatchObject({
        structure: null,
        structures: [{ x: 1 }, { x: 2 }],
        string: "(2 structures)",
      });
    });
  });
});

describe("a PV without a connection, or that may not be read", () => {
  let calls: number;

  eachWithFakeRelay({ TEMP: { value: 21.5, units: "V" } });

  beforeEach(async () => {
    calls = 0;
    const answers = client.pv("TEMP", "{ connection { unresponsive } }");
    answers.subscribe(() => {
      calls += 1;
      answers.getSnapshot();
    });
    await runPromises();
    clock.advance(20);
    answers.getSnapshot();
  });

  const temp = (): PvData => client.pv("TEMP").getSnapshot() as PvData;

  async function change(pv: Parameters<FakeRelay["set"]>[1]): Promise<void> {
    relay.set("TEMP", pv);
    await runPromises();
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
      await runPromises();
      clock.advance(20);
      const { lastHeard, since, state } = temp().connection;
      expect(state).toBe("relayLost");
      expect(Date.parse(since ?? "") - lastSeen).toBeGreaterThanOrEqual(700);
      expect(Date.parse(lastHeard ?? "")).toBeLessThanOrEqual(lastSeen);
    });
  });
});
