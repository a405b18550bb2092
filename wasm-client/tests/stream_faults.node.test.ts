/**
 * A stream of large values that stalls, trickles, is buffered, refused or cut on its way delays no
 * other PV for longer than 3 s, and large values arrive all the same.
 *
 * Topology: a real relay, a proxy that disturbs the connection of the stream alone, one client.
 */

import { createServer, connect, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { WebSocket as NodeSocket } from "ws";

import { privateEpicsNetwork } from "../../testbed/ts/epics.js";
import { Relay } from "../../testbed/ts/relay.js";
import { createClient, type ConnectionSnapshot } from "../ts/index.js";
import { wasm } from "./golden.js";

/** What happens to the stream. */
type Fault = "stall" | "trickle" | "buffer" | "refuse" | "cut";

/** Bytes of the stream that pass before the fault: several large values. */
const GOOD_BYTES = 3_000_000;

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

/** Passes connections on to the relay, and disturbs those that begin as a stream does. */
class Proxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  streams = 0;

  constructor(fault: Fault) {
    this.#server = createServer((near) => {
      this.#keep(near);
      near.once("data", (first) => {
        const isStream = first.toString("latin1").startsWith("GET /ws/large");
        if (isStream) this.streams += 1;
        if (isStream && fault === "refuse") {
          near.end("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
          return;
        }
        const far = this.#keep(connect(relay.port, "127.0.0.1"));
        far.write(first);
        near.pipe(far);
        if (isStream) this.#disturb(fault, far, near);
        else far.pipe(near);
      });
    });
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    return socket.on("error", () => undefined).setNoDelay();
  }

  #disturb(fault: Fault, far: Socket, near: Socket): void {
    let passed = 0;
    far.on("data", (data) => {
      if (fault === "buffer") return;
      passed += data.length;
      if (passed < GOOD_BYTES) {
        near.write(data);
        return;
      }
      if (fault === "cut") near.destroy();
      far.pause();
      if (fault !== "trickle") return;
      near.write(data.subarray(0, 100));
      setTimeout(() => far.resume(), 100);
    });
  }

  async url(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, "127.0.0.1", done));
    return `ws://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}/ws`;
  }

  end(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Whether the fault is one of a stream that is in use already. */
const IN_USE: Readonly<Record<Fault, boolean>> = {
  stall: true,
  trickle: true,
  cut: true,
  buffer: false,
  refuse: false,
};

it.each(Object.keys(IN_USE) as Fault[])("%s: small PVs go on within 3 s", async (fault) => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const proxy = new Proxy(fault);
  const webSocket = NodeSocket as unknown as typeof WebSocket;
  const client = createClient({ url: await proxy.url(), webSocket, ...(wasm && { wasm }) });
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
