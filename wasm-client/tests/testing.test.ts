/** The fake relay behaves like a real one. */

import { describe, expect, it } from "vitest";

import type { PutResult, PvData } from "../ts/index.js";
import { client, clock, eachWithFakeRelay, relay, runPromises } from "./faked.js";

eachWithFakeRelay({
  TEMP: {
    value: 21.54,
    units: "°C",
    precision: 1,
    description: "Magnet 1",
    warningRange: { min: null, max: 60 },
  },
  MODE: { value: 1, choices: ["Off", "On"] },
  TEXT: "ready",
  LARGE: 2n ** 60n,
  WAVE: { value: Float64Array.of(1, 2, 3) },
  NAMES: { value: ["a", "bc"] },
  TABLE: { value: { labels: ["x"], value: { x: Int32Array.of(1, 2), s: ["p", "q"] } } },
});

/** Listens, and gives what is seen from now on. */
async function watch(name: string): Promise<() => PvData> {
  client.pv(name, "{ id }").subscribe(() => undefined);
  await runPromises();
  // This PV has no listener, so that it doesn't wait for the next frame.
  return () => client.pv(name).getSnapshot() as PvData;
}

describe("a fake PV", () => {
  it("has what was said of it", async () => {
    const temp = await watch("TEMP");
    expect(temp().value).toMatchObject({ string: "21.5", number: 21.54 });
    expect(temp().display).toMatchObject({
      units: "°C",
      description: "Magnet 1",
      warningRange: { min: null, max: 60 },
      alarmRange: null,
    });
    expect(temp().status).toMatchObject({ severity: "NO_ALARM", writable: true });
    expect(temp().time?.datetime).toBe("2026-01-01T00:00:00.000000Z");
    expect((await watch("MODE"))().value?.string).toBe("On");
    expect((await watch("TEXT"))().value?.text).toBe("ready");
    expect((await watch("LARGE"))().value?.bigint).toBe(2n ** 60n);
    expect((await watch("WAVE"))().value?.array).toEqual(Float64Array.of(1, 2, 3));
    expect((await watch("NAMES"))().value?.array).toEqual(["a", "bc"]);
    expect((await watch("TABLE"))().value?.structure).toEqual({
      labels: ["x"],
      value: { x: Int32Array.of(1, 2), s: ["p", "q"] },
    });
  });

  it("changes, each update in turn", async () => {
    const temp = await watch("TEMP");
    clock.advance(1500);
    relay.set("TEMP", { value: 80, severity: "MAJOR", alarmStatus: 3 });
    expect(temp().status).toMatchObject({ severity: "MAJOR", alarmStatus: "HIHI" });
    expect(temp().time?.datetime).toBe("2026-01-01T00:00:01.500000Z");
    relay.set("TEMP", 22);
    relay.set("TEMP", { severity: "NO_ALARM", units: "K" });
    expect(temp().value?.string).toBe("22.0");
    expect(temp().display?.units).toBe("K");
    expect(temp().status.severity).toBe("NO_ALARM");
    expect(client.inspect("TEMP")).toMatchObject({ skipped: 0, updatesReceived: 4 });
    relay.set("TEMP", "now text");
    expect(temp().value?.text).toBe("now text");
    expect(temp().display?.type).toBe("String");
  });

  it("is gone, comes back, is not found or refused", async () => {
    const temp = await watch("TEMP");
    relay.set("TEMP", { state: "disconnected" });
    expect(temp().connection).toMatchObject({ state: "disconnected", connected: false });
    expect(temp().value?.string).toBe("21.5");
    relay.set("TEMP", 5);
    expect(temp().connection.state).toBe("connected");
    const other = await watch("OTHER");
    expect(other().connection.state).toBe("notFound");
    relay.set("OTHER", 1);
    expect(other().value?.number).toBe(1);
    relay.refuse("BAD", "no such name");
    expect((await watch("BAD"))().connection).toMatchObject({
      state: "refused",
      reason: "no such name",
    });
  });

  it("is given back after a while", async () => {
    const pv = client.pv("TEMP");
    const end = pv.subscribe(() => undefined);
    await runPromises();
    expect(relay.subscriptions).toEqual(["TEMP"]);
    end();
    clock.advance(1900);
    await runPromises();
    expect(relay.subscriptions).toEqual(["TEMP"]);
    clock.advance(200);
    await runPromises();
    expect(relay.subscriptions).toEqual([]);
  });

  it("is read once", async () => {
    const [temp, none] = await client.get(["TEMP", ""]);
    expect(temp).toMatchObject({ ok: true, data: { value: { number: 21.54 } } });
    expect(none).toMatchObject({ ok: false });
  });
});

describe("a put", () => {
  it("is done, and the PV has it", async () => {
    const [temp, mode] = [await watch("TEMP"), await watch("MODE")];
    expect(await client.put("TEMP", 30)).toEqual({ ok: true, superseded: false });
    expect(await client.put("MODE", "Off")).toMatchObject({ ok: true });
    expect(temp().value?.number).toBe(30);
    expect(mode().value?.string).toBe("Off");
    expect(relay.puts).toEqual([
      { name: "TEMP", value: 30 },
      { name: "MODE", value: "Off" },
    ]);
  });

  it("takes a number for an index and a text for a label, where labels are digits", async () => {
    relay.set("MODE", { choices: ["1", "0", "Auto"] });
    const mode = await watch("MODE");
    const put = async (value: number | string): Promise<unknown> => {
      const { ok } = await client.put("MODE", value);
      return ok ? mode().value?.number : "refused";
    };
    expect(await put(0)).toBe(0);
    expect(await put("0")).toBe(1);
    expect(await put("2")).toBe(2);
    expect(await put(1)).toBe(1);
    for (const wrong of ["", "Off", 3, -1, 0.5]) expect(await put(wrong)).toBe("refused");
    expect(mode().value?.number).toBe(1);
  });

  it("of a PV that isn't watched loses no update of others", async () => {
    const temp = await watch("TEMP");
    relay.set("MODE", 0);
    expect(await client.put("MODE", 1)).toMatchObject({ ok: true });
    relay.set("TEMP", 30);
    expect(temp().value?.number).toBe(30);
    expect(client.stats.getSnapshot()).toMatchObject({ gapsTotal: 0 });
    expect(client.connection.getSnapshot().state).toBe("open");
  });

  it("is refused for its value, by access, or as the test says", async () => {
    expect(await client.put("TEMP", "x")).toMatchObject({
      ok: false,
      error: { code: "BAD_VALUE" },
    });
    relay.set("TEMP", { mutable: false });
    expect(await client.put("TEMP", 1)).toMatchObject({ ok: false, error: { code: "NO_ACCESS" } });
    relay.set("TEMP", { mutable: true });
    relay.onPut = ({ name }) => Promise.resolve(`${name} is locked`);
    expect(await client.put("TEMP", 1)).toMatchObject({
      ok: false,
      error: { code: "FAILED", message: "TEMP is locked" },
    });
  });
});

describe("several puts", () => {
  it("have a result each; allPermitted writes all or none", async () => {
    const [temp, mode] = [await watch("TEMP"), await watch("MODE")];
    relay.set("MODE", { puts: false });
    const puts = [
      ["TEMP", 31],
      ["MODE", "On"],
      ["TEMP", 32],
    ] as const;
    const codes = (results: readonly PutResult[]): string[] =>
      results.map((result) => (result.ok ? "DONE" : result.error.code));
    const all = await client.putMany(puts, { allPermitted: true });
    expect(codes(all)).toEqual(["WITHHELD", "NOT_ALLOWED", "WITHHELD"]);
    expect(temp().status.writable).toBe(true);
    expect(mode().status.writable).toBe(false);
    expect(temp().value?.number).toBe(21.54);
    expect(codes(await client.putMany(puts))).toEqual(["DONE", "NOT_ALLOWED", "DONE"]);
    expect(temp().value?.number).toBe(32);
  });
});

describe("the connection", () => {
  it("is lost and found again", async () => {
    const temp = await watch("TEMP");
    const { relayInstance } = client.connection.getSnapshot();
    relay.lose();
    expect(temp().connection.state).toBe("relayLost");
    expect(client.connection.getSnapshot().state).toBe("lost");
    clock.advance(20_000);
    await runPromises();
    expect(client.connection.getSnapshot().state).toBe("lost");
    relay.set("TEMP", 99);
    relay.restore();
    clock.advance(20_000);
    await runPromises();
    expect(temp().value?.number).toBe(99);
    expect(client.connection.getSnapshot().relayInstance).not.toBe(relayInstance);
  });
});
