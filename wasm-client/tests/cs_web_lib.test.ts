/** The connection for cs-web-lib keeps what cs-web-lib's published interface promises. */

import { afterEach, beforeEach, expect, it } from "vitest";

import {
  createCsWebLibConnection,
  type CsConnection,
  type CsConnectionState,
  type CsValue,
} from "../ts/adapters/cs-web-lib/index.js";
import type { PvClient } from "../ts/index.js";
import { createFakeRelay, type FakeRelay } from "../ts/testing/index.js";
import { wasm } from "./golden.js";
import { until } from "./until.js";

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
