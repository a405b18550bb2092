/** PVs while the WebAssembly module is loading, and when loading fails or the module breaks. */

import { afterEach, expect, it, vi } from "vitest";

import { Wasm } from "../ts/store/core.js";
import { LoadError, SelectionError, type PvClient, type PvData } from "../ts/index.js";
import { fakeClient, FakeSocket, runPromises } from "./fake_relay.js";
import { wasm } from "./golden.js";

let client: PvClient;

afterEach(() => {
  client.dispose();
});

it("a failed load ends the client; later ones can succeed", async () => {
  client = fakeClient({ wasm: Promise.resolve(new Uint8Array(8)) });
  const answer = client.get(["A"]);
  await expect(client.ready).rejects.toBeInstanceOf(LoadError);
  await expect(answer).rejects.toMatchObject({ code: "LOAD" });
  expect(client.connection.getSnapshot()).toMatchObject({ state: "closed" });
  expect(client.connection.getSnapshot().reason).toMatch(/can't be loaded/);
});

it("PVs are undefined until it is loaded; errors are thrown then", async () => {
  client = fakeClient({ ...(wasm && { wasm: Promise.resolve(wasm) }) });
  const right = client.pv("X");
  const wrong = client.pv("X", "{ nonsense }");
  const listeners = { right: vi.fn(), wrong: vi.fn() };
  expect(right.getSnapshot()).toBeUndefined();
  expect(wrong.getSnapshot()).toBeUndefined();
  right.subscribe(listeners.right);
  wrong.subscribe(listeners.wrong);
  await client.ready;
  await runPromises();
  expect(listeners.right).toHaveBeenCalledTimes(1);
  expect(listeners.wrong).toHaveBeenCalledTimes(1);
  expect(right.getSnapshot()).toMatchObject({ id: "ca://X", connection: { state: "connecting" } });
  expect(() => wrong.getSnapshot()).toThrow(SelectionError);
  expect(() => client.pv("Y", "{ nonsense }")).toThrow(SelectionError);
});

it("a module that failed is replaced and its values discarded", async () => {
  client = fakeClient();
  await client.ready;
  const pv = client.pv("TEMP");
  pv.subscribe(() => undefined);
  FakeSocket.last.open();
  await runPromises();
  FakeSocket.last.answer("snapshot", "subscribe");
  expect(client.inspect("TEMP")?.sequence).toBe(100);

  const apply = vi.spyOn(Wasm.prototype, "apply").mockImplementationOnce(() => {
    throw new WebAssembly.RuntimeError("unreachable");
  });
  FakeSocket.last.frame("update");
  apply.mockRestore();
  expect(client.connection.getSnapshot()).toMatchObject({ state: "lost" });
  const now = client.pv("TEMP", "{ value { float } connection { state } }").getSnapshot() as PvData;
  expect(now).toEqual({ value: null, connection: { state: "relayLost" } });
});
