/** Age of a value when JavaScript is called with it. */

import { createClient, type PvClient } from "pvwire";
import { socketIn, type SocketPlace } from "pvwire/worker";

interface Stamped {
  readonly time: { readonly seconds: number } | null;
}

export interface LatencyFigures {
  readonly latency_p50_ms: number;
  readonly latency_p99_ms: number;
  readonly latency_max_ms: number;
  readonly callbacks_per_s: number;
  readonly updates_per_s: number;
}

/** Each PV has its own listener, as each widget has. */
export async function latency(
  url: string,
  names: readonly string[],
  warmUpMs: number,
  ms: number,
  webSocket = WebSocket,
): Promise<LatencyFigures> {
  const client = createClient({ url, webSocket });
  const agesMs: number[] = [];
  let measuring = false;
  const clockMs = clock();
  for (const name of names) {
    const pv = client.pv<Stamped>(name, "{ time { seconds } }");
    pv.subscribe(() => {
      const time = pv.getSnapshot()?.time;
      if (!measuring || time == null) return;
      agesMs.push(clockMs() - time.seconds * 1000);
    });
  }
  await wait(warmUpMs);
  measuring = true;
  const began = performance.now();
  const before = received(client, names);
  await wait(ms);
  const seconds = (performance.now() - began) / 1000;
  const updates = received(client, names) - before;
  client.dispose();
  const sorted = Float64Array.from(agesMs).sort();
  const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] as number;
  return {
    latency_p50_ms: at(0.5),
    latency_p99_ms: at(0.99),
    latency_max_ms: at(1),
    callbacks_per_s: sorted.length / seconds,
    updates_per_s: updates / seconds,
  };
}

/** The same with the connection elsewhere. */
export const latencyIn = (
  place: SocketPlace,
  url: string,
  names: readonly string[],
  warmUpMs: number,
  ms: number,
): Promise<LatencyFigures> => latency(url, names, warmUpMs, ms, socketIn(place));

const received = (client: PvClient, names: readonly string[]): number =>
  names.reduce((sum, name) => sum + (client.inspect(name)?.updatesReceived ?? 0), 0);

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Milliseconds past the POSIX epoch, with the fractions that `Date.now` leaves out. */
function clock(): () => number {
  const second = Date.now();
  let now = second;
  while (now === second) now = Date.now();
  const offset = now - performance.now();
  return () => offset + performance.now();
}
