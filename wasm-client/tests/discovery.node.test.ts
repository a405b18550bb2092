/** A client with the address of one relay, which names the others of its fleet. Relays and NATS are real. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket as NodeSocket } from "ws";

import { Child } from "../../testbed/ts/child.js";
import { privateEpicsNetwork } from "../../testbed/ts/epics.js";
import { RELAY } from "../../testbed/ts/paths.js";
import { freePort } from "../../testbed/ts/ports.js";
import { createClient, type ConnectionSnapshot, type PvClient } from "../ts/index.js";
import { wasm } from "./golden.js";
import { startNats } from "./real.js";

interface FleetRelay {
  readonly child: Child;
  readonly url: string;
}

let nats: Child;
let bus: string;
let env: Readonly<Record<string, string>>;
let relays: FleetRelay[];
let client: PvClient;

/** The client's messages from relays, as text. */
let received = "";

class Socket extends NodeSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols);
    this.on("message", (data: ArrayBuffer) => (received += Buffer.from(data).toString("latin1")));
  }
}

async function startRelay(): Promise<FleetRelay> {
  const listen = `127.0.0.1:${String(await freePort())}`;
  const url = `ws://${listen}/ws`;
  const quick = ["--drain-delay-ms", "0", "--drain-spread-ms", "0"];
  const args = ["--listen", listen, "--bus", bus, "--member-url", url, "--enable-sim", ...quick];
  const child = Child.start({ what: "relay", command: RELAY, args, env });
  await child.waitForOutput(/listening on/);
  return { child, url };
}

/** The relays of the fleet, as one of them says. */
async function fleetSeenBy({ url }: FleetRelay): Promise<number> {
  const answer = await fetch(url.replace("ws:", "http:").replace(/ws$/, "status"));
  return ((await answer.json()) as { fleet: unknown[] }).fleet.length;
}

const now = (): ConnectionSnapshot => client.connection.getSnapshot();

beforeAll(async () => {
  ({ bus, child: nats } = await startNats());
  ({ env } = await privateEpicsNetwork());
  relays = await Promise.all([startRelay(), startRelay()]);
  client = createClient({
    urls: [(relays[0] as FleetRelay).url],
    webSocket: Socket as unknown as typeof WebSocket,
    ...(wasm && { wasm }),
  });
});

afterAll(async () => {
  client.dispose();
  for (const { child } of relays) await child.kill();
  await nats.kill();
});

it("a client goes on at relays that its relay has named, at the start or later", async () => {
  for (const relay of relays) await expect.poll(() => fleetSeenBy(relay)).toBe(2);
  const [first, second] = relays as [FleetRelay, FleetRelay];
  const pv = client.pv<{ value: { number: number } | null; status: { quality: string } }>(
    "sim://sine",
    "{ value { number } status { quality } }",
  );
  const end = pv.subscribe(() => undefined);
  const isLive = (): boolean => pv.getSnapshot()?.status.quality === "VALID";
  await expect.poll(isLive).toBe(true);
  expect(now()).toMatchObject({ state: "open", relayUrl: first.url });

  await first.child.kill();
  await expect.poll(() => now().state === "open" && now().relayUrl === second.url).toBe(true);
  await expect.poll(isLive).toBe(true);

  // It joins while the client is connected. Then the second one sends its clients away as it stops; the first is still
  // gone.
  const third = await startRelay();
  relays.push(third);
  await expect.poll(() => received.includes(third.url)).toBe(true);
  const reasons = new Set<string | undefined>();
  const leave = client.connection.subscribe(() => reasons.add(now().reason));
  second.child.signal("SIGTERM");
  await expect.poll(() => now().state === "open" && now().relayUrl === third.url).toBe(true);
  expect(reasons).toContain("the relay is restarting");
  await expect.poll(isLive).toBe(true);
  leave();
  end();
});
