/** A real IOC with a test's records, and clients of real relays. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { WebSocket as NodeSocket } from "ws";

import { Child } from "../../testbed/ts/child.js";
import { privateEpicsNetwork, type EpicsNetwork } from "../../testbed/ts/epics.js";
import { PYTHON, ROOT } from "../../testbed/ts/paths.js";
import { freePort } from "../../testbed/ts/ports.js";
import { createClient, type ClientOptions, type PvClient } from "../ts/index.js";
import { wasm } from "./golden.js";

export interface RealIoc {
  readonly child: Child;
  /** For files of the test; removed at the end. */
  readonly folder: string;
  readonly network: EpicsNetwork;
  readonly end: () => Promise<void>;
}

/** Starts a softIOC with these records, in which `$(P)` is the prefix. */
export async function startIoc(prefix: string, records: string): Promise<RealIoc> {
  const folder = await mkdtemp(path.join(tmpdir(), "pvwire-ioc-"));
  const database = path.join(folder, "records.db");
  await writeFile(database, records);
  const network = await privateEpicsNetwork();
  const child = Child.start({
    what: "softIOC",
    command: PYTHON,
    args: ["-m", "pvxslibs.ioc", "-m", `P=${prefix}`, "-d", database],
    env: { PVXS_QSRV_ENABLE: "YES", ...network.env },
  });
  await child.waitForOutput(/complete/);
  const end = async (): Promise<void> => {
    await child.kill();
    await rm(folder, { recursive: true });
  };
  return { child, folder, network, end };
}

const NATS = process.env.PVWIRE_NATS_SERVER ?? path.join(ROOT, ".local/nats/usr/sbin/nats-server");

/** A NATS server for a fleet, and its address. */
export async function startNats(): Promise<{ readonly child: Child; readonly bus: string }> {
  const port = await freePort();
  const args = ["--addr", "127.0.0.1", "--port", String(port)];
  const child = Child.start({ what: "NATS", command: NATS, args, env: {} });
  await child.waitForOutput(/Server is ready/);
  return { child, bus: `nats://127.0.0.1:${String(port)}` };
}

/** What a client of a real relay needs in Node. */
export const IN_NODE = {
  // Node 20 has none.
  webSocket: NodeSocket as unknown as typeof WebSocket,
  ...(wasm && { wasm }),
};

type Options = Pick<ClientOptions, "archiveWasm" | "maxRetryDelayMs" | "pingTimeoutMs">;

/** A client of the relay at this port of the machine. */
export const clientOf = (port: number, options: Options = {}): PvClient =>
  createClient({ url: `ws://127.0.0.1:${String(port)}/ws`, ...IN_NODE, ...options });

/** No busy machine makes such a client reconnect; it comes back soon after it was cut off. */
export const steadyClientOf = (port: number): PvClient =>
  clientOf(port, { maxRetryDelayMs: 200, pingTimeoutMs: 60_000 });
