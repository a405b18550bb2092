/** Actions of cs-web-lib's widgets reach the relay, and its answers reach their store. */

import { afterEach, beforeEach, expect, it } from "vitest";

import {
  connectCsWebLib,
  type CsStore,
  type CsWebLibOptions,
} from "../ts/adapters/cs-web-lib/index.js";
import type { PvClient } from "../ts/index.js";
import { createFakeRelay, type FakeRelay } from "../ts/testing/index.js";
import { wasm } from "./golden.js";
import { until } from "./until.js";

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
