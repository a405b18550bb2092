/**
 * A stream of large values that stalls, trickles, is buffered, refused or cut on its way delays no
 * other PV for longer than 3 s, and large values arrive all the same.
 *
 * Topology: a real relay, a proxy that disturbs the connection of the stream alone, one client.
 */

import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { WebSocket as NodeSocket } from "ws";

import { privateEpicsNetwork } from "../../testbed/ts/epics.js";
import { Relay } from "../../testbed/ts/relay.js";
import { IN_USE, StreamProxy, type StreamFault } from "../../testbed/ts/stream_proxy.js";
import { createClient, type ConnectionSnapshot } from "../ts/index.js";
import { wasm } from "./golden.js";

/** The longest pause of a small PV: 3 s, and the time that a busy machine takes to reconnect. */
const MOST_PAUSE_MS = 6000;

const COUNTER = "sim://counter(rate_hz=20)";
const WAVE = "sim://waveform(100000,rate_hz=5)";

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start(await privateEpicsNetwork());
});

afterAll(async () => {
  await relay.kill();
});

afterEach(() => {
  vi.restoreAllMocks();
});

it.each(Object.keys(IN_USE) as StreamFault[])("%s: small PVs go on within 3 s", async (fault) => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const proxy = await StreamProxy.start(relay.port, fault);
  const url = `ws://127.0.0.1:${String(proxy.port)}/ws`;
  const webSocket = NodeSocket as unknown as typeof WebSocket;
  const client = createClient({ url, webSocket, ...(wasm && { wasm }) });
  const states: ConnectionSnapshot[] = [];
  client.connection.subscribe(() => states.push(client.connection.getSnapshot()));

  let [longest, last, small, large] = [0, Date.now(), 0, 0];
  const counter = client.pv(COUNTER);
  const wave = client.pv(WAVE);
  counter.subscribe(() => {
    small += 1;
    if (small > 1) longest = Math.max(longest, Date.now() - last);
    last = Date.now();
  });
  wave.subscribe(() => (large += 1));
  await expect.poll(() => proxy.streams).toBeGreaterThan(0);
  if (IN_USE[fault]) {
    await expect.poll(() => warned.mock.calls.flat().join()).toContain("stream of large values");
    const lost = states.find(({ state }) => state === "lost");
    expect(lost?.reason).toContain("the stream of large values");
  }
  const [smallBefore, largeBefore] = [small, large];
  await expect.poll(() => small - smallBefore).toBeGreaterThan(40);
  await expect.poll(() => large - largeBefore).toBeGreaterThan(5);

  expect(longest).toBeLessThan(MOST_PAUSE_MS);
  expect(client.connection.getSnapshot().state).toBe("open");
  expect(counter.getSnapshot()?.connection.state).toBe("connected");
  expect(states.some(({ state }) => state === "lost")).toBe(IN_USE[fault]);
  client.dispose();
  proxy.end();
});
