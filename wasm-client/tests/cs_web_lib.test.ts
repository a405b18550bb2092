/** The connection for cs-web-lib keeps what its published interface promises, and actions of its widgets reach the relay. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import {
  connectCsWebLib,
  createCsWebLibConnection,
  type CsConnection,
  type CsConnectionState,
  type CsStore,
  type CsValue,
  type CsWebLibOptions,
} from "../ts/adapters/cs-web-lib/index.js";
import type { PvClient } from "../ts/index.js";
import { createFakeRelay, type FakeRelay } from "../ts/testing/index.js";
import { wasm } from "./golden.js";
import { until } from "./until.js";

describe("the connection", () => {
  let relay: FakeRelay;
  let client: PvClient;
  let connection: CsConnection;
  const states = new Map<string, CsConnectionState[]>();
  const values = new Map<string, CsValue[]>();
  const failed: string[] = [];

  beforeEach(async () => {
    states.clear();
    values.clear();
    failed.length = 0;
    relay = createFakeRelay({
      ...(wasm && { wasm }),
      pvs: {
        TEMP: {
          value: 21.54,
          units: "°C",
          precision: 1,
          description: "Coil",
          controlRange: { min: 0, max: 90 },
          warningRange: { min: null, max: 60 },
          alarmRange: { min: 5, max: 80 },
        },
        MODE: { value: 1, choices: ["Off", "On"] },
        TEXT: "ready",
        WAVE: { value: Int16Array.of(1, -2) },
        NAMES: { value: ["a", "b"] },
        NAN: NaN,
      },
    });
    client = relay.client();
    connection = createCsWebLibConnection(client, {
      onPutFailed: (pvName, reason) => failed.push(`${pvName}: ${reason}`),
    });
    await client.ready;
    expect(connection.isConnected()).toBe(false);
    connection.connect(
      (name, state) => states.set(name, [...(states.get(name) ?? []), state]),
      (name, value) => values.set(name, [...(values.get(name) ?? []), value]),
      (name, value) => values.set(name, [value]),
    );
    expect(connection.isConnected()).toBe(true);
  });

  afterEach(() => {
    client.dispose();
  });

  async function valueOf(name: string): Promise<CsValue> {
    connection.subscribe(name, { double: true });
    await until(() => {
      expect(values.get(name)?.at(-1)?.getAlarm().quality).toMatch(/valid|warning|alarm/);
    });
    return values.get(name)?.at(-1) as CsValue;
  }

  it("numbers come with all that widgets draw them by", async () => {
    const temp = await valueOf("TEMP");
    expect(temp.getDoubleValue()).toBe(21.54);
    expect(temp.getStringValue()).toBeUndefined();
    expect(temp.getTime()?.datetime).toBeInstanceOf(Date);
    expect(temp.getAlarm()).toEqual({ quality: "valid", message: "" });
    expect(temp.getDisplay()).toEqual({
      role: 2,
      description: "Coil",
      units: "°C",
      precision: 1,
      controlRange: { min: 0, max: 90 },
      warningRange: { min: -Infinity, max: 60 },
      alarmRange: { min: 5, max: 80 },
    });
    expect(temp.partial).toBe(false);
  });

  it("enums, text, arrays and non-numbers keep their kind", async () => {
    const mode = await valueOf("MODE");
    expect([mode.getDoubleValue(), mode.getStringValue()]).toEqual([1, "On"]);
    expect(mode.getDisplay().choices).toEqual(["Off", "On"]);
    expect((await valueOf("TEXT")).getStringValue()).toBe("ready");
    expect((await valueOf("WAVE")).getArrayValue()).toEqual(Int16Array.of(1, -2));
    expect((await valueOf("NAMES")).getStringArrayValue()).toEqual(["a", "b"]);
    expect((await valueOf("NAN")).getDoubleValue()).toBeNaN();
  });

  it("alarms, access and the connection follow", async () => {
    await valueOf("TEMP");
    expect(states.get("TEMP")?.at(-1)).toEqual({ isConnected: true, isReadonly: false });
    relay.set("TEMP", { value: 90, severity: "MAJOR", alarmStatus: 3 });
    await until(() => {
      expect(values.get("TEMP")?.at(-1)?.getAlarm()).toEqual({ quality: "alarm", message: "HIHI" });
    });
    relay.set("TEMP", { mutable: false });
    await until(() => {
      expect(states.get("TEMP")?.at(-1)).toEqual({ isConnected: true, isReadonly: true });
    });
    relay.lose();
    await until(() => {
      expect(states.get("TEMP")?.at(-1)).toEqual({ isConnected: false, isReadonly: true });
    });
    expect(values.get("TEMP")?.at(-1)?.getAlarm().quality).toBe("undefined");
    expect(values.get("TEMP")?.at(-1)?.getDoubleValue()).toBe(90);
  });

  it("an unresponsive PV is not connected and has no known alarm", async () => {
    await valueOf("TEMP");
    relay.set("TEMP", { unresponsive: true });
    await until(() => {
      expect(states.get("TEMP")?.at(-1)).toEqual({ isConnected: false, isReadonly: false });
    });
    const old = values.get("TEMP")?.at(-1);
    expect(old?.getAlarm()).toEqual({ quality: "undefined", message: "no news" });
    expect(old?.getDoubleValue()).toBe(21.54);
    relay.set("TEMP", { unresponsive: false });
    await until(() => {
      expect(states.get("TEMP")?.at(-1)).toEqual({ isConnected: true, isReadonly: false });
    });
    expect(values.get("TEMP")?.at(-1)?.getAlarm()).toEqual({ quality: "valid", message: "" });
  });

  it("puts report their result; unsubscribed PVs stop", async () => {
    await valueOf("TEMP");
    connection.putPv("TEMP", { value: { doubleValue: 30 } });
    connection.putPv("MODE", { value: { stringValue: "Off" } });
    connection.putPv("TEMP", { value: { stringValue: "x" } });
    connection.putPv("TEMP", { value: {} });
    await until(() => {
      expect(failed.sort()).toEqual(['TEMP: "x" is no number', "TEMP: there is no value to write"]);
    });
    expect(relay.puts).toEqual([
      { name: "TEMP", value: 30 },
      { name: "MODE", value: "Off" },
      { name: "TEMP", value: "x" },
    ]);
    await until(() => {
      expect(values.get("TEMP")?.at(-1)?.getDoubleValue()).toBe(30);
    });
    connection.unsubscribe("TEMP");
    const count = values.get("TEMP")?.length;
    relay.set("TEMP", 50);
    await valueOf("TEXT");
    expect(values.get("TEMP")).toHaveLength(count ?? 0);
    connection.getDevice("dev://A");
    expect(values.get("dev://A")?.[0]?.getAlarm().quality).toBe("undefined");
  });
});

describe("actions of its widgets", () => {
  type Action = Parameters<CsStore["dispatch"]>[0];

  let relay: FakeRelay;
  let client: PvClient;
  let store: CsStore;
  /** What cs-web-lib's own middleware is given. */
  let passed: Action[];
  const failed: string[] = [];

  beforeEach(async () => {
    failed.length = 0;
    passed = [];
    relay = createFakeRelay({ ...(wasm && { wasm }), pvs: { TEMP: 21.5, OTHER: 1 } });
    client = relay.client();
    store = { dispatch: (action) => (passed.push(action), action) };
    await client.ready;
  });

  afterEach(() => {
    client.dispose();
  });

  const connect = (options?: CsWebLibOptions): (() => void) =>
    connectCsWebLib(store, client, {
      onPutFailed: (pvName, reason) => failed.push(`${pvName}: ${reason}`),
      ...options,
    });

  const ask = (type: "subscribe" | "unsubscribe", componentId: string, pvName = "TEMP"): unknown =>
    store.dispatch({ type, payload: { componentId, pvName } });

  /** The payloads of one type that reached the store. */
  const dispatched = (type: string): { pvName?: string; value?: unknown }[] =>
    passed.filter((action) => action.type === type).map(({ payload }) => payload as object);

  const lastNumber = (): unknown => {
    const value = dispatched("value_changed").at(-1)?.value as { getDoubleValue: () => unknown };
    return (value as typeof value | undefined)?.getDoubleValue();
  };

  it("a PV is had from its first widget to its last", async () => {
    connect();
    const action = { type: "subscribe", payload: { componentId: "a", pvName: "TEMP" } };
    expect(store.dispatch(action)).toBe(action);
    ask("subscribe", "b");
    await until(() => {
      expect(lastNumber()).toBe(21.5);
    });
    expect(dispatched("connection_changed").at(-1)).toEqual({
      pvName: "TEMP",
      value: { isConnected: true, isReadonly: false },
    });
    ask("unsubscribe", "a");
    relay.set("TEMP", 22);
    await until(() => {
      expect(lastNumber()).toBe(22);
    });
    ask("unsubscribe", "b");
    ask("unsubscribe", "b");
    relay.set("TEMP", 23);
    ask("subscribe", "c", "OTHER");
    await until(() => {
      expect(lastNumber()).toBe(1);
    });
    expect(dispatched("value_changed").filter(({ pvName }) => pvName === "TEMP")).toHaveLength(2);
    expect(dispatched("subscribe"), "cs-web-lib's own connection isn't asked").toEqual([]);
  });

  it("writes and device queries are answered, other actions pass", async () => {
    connect();
    store.dispatch({
      type: "write_pv",
      payload: { pvName: "TEMP", value: { value: { stringValue: "30" } } },
    });
    store.dispatch({
      type: "write_pv",
      payload: { pvName: "TEMP", value: { value: { stringValue: "hot" } } },
    });
    await until(() => {
      expect(failed).toEqual(['TEMP: "hot" is no number']);
    });
    expect(relay.puts).toEqual([
      { name: "TEMP", value: "30" },
      { name: "TEMP", value: "hot" },
    ]);
    store.dispatch({ type: "query_device", payload: { device: "dev://A" } });
    expect(dispatched("device_queried")).toMatchObject([{ device: "dev://A" }]);
    const other = { type: "refresh_file", payload: { file: "a.bob" } };
    store.dispatch(other);
    expect(passed.at(-1)).toBe(other);
  });

  it("names that aren't taken are left to cs-web-lib", async () => {
    connect({ takes: (pvName) => pvName.startsWith("TE") });
    ask("subscribe", "a", "loc://x");
    ask("unsubscribe", "a", "loc://x");
    store.dispatch({ type: "write_pv", payload: { pvName: "loc://x", value: { value: {} } } });
    store.dispatch({ type: "query_device", payload: { device: "dev://A" } });
    expect(passed.map(({ type }) => type)).toEqual([
      "subscribe",
      "unsubscribe",
      "write_pv",
      "query_device",
    ]);
    ask("subscribe", "a");
    await until(() => {
      expect(lastNumber()).toBe(21.5);
    });
  });

  it("once ended, nothing comes and the store is as it was", async () => {
    const { dispatch } = store;
    const end = connect();
    ask("subscribe", "a");
    await until(() => {
      expect(lastNumber()).toBe(21.5);
    });
    end();
    expect(store.dispatch).toBe(dispatch);
    expect(dispatched("connection_changed").at(-1)).toEqual({
      pvName: "TEMP",
      value: { isConnected: false, isReadonly: true },
    });
  });
});
