/** How well does it work: the connection, what comes of each PV, and how long it takes to be seen? */

import { useEffect, useState, type ReactNode } from "react";
import type { PvClient, PvConnection, PvTime } from "pvwire";
import { useConnection, useRate, useSkipped } from "pvwire/react";
import { formatClock, formatCount, formatOneDigit } from "pvwire/widgets";

const PVS = ["RING:CURRENT", "RF:VOLTAGE", "VAC:PRESSURE", "RING:MODE", "N0000", "NOT_THERE"];

export interface HealthProps {
  readonly client: PvClient;
  readonly prefix: string;
}

export function Health({ client, prefix }: HealthProps): ReactNode {
  const { attempt, reason, relayInstance, relayVersion, sinceMs, state } = useConnection();
  return (
    <div className="machine">
      <section className="panel" aria-label="Connection">
        <h2>Connection</h2>
        <dl className="facts">
          <Fact name="State" text={state} />
          <Fact name="Since" text={formatClock(sinceMs)} />
          <Fact name="Reason" text={reason ?? "–"} />
          <Fact name="Failed attempts" text={formatCount(attempt)} />
          <Fact name="Relay" text={relayVersion ?? "–"} />
          <Fact name="Relay's instance" text={relayInstance ?? "–"} />
        </dl>
      </section>
      <section className="panel" aria-label="Rates per PV">
        <h2>Rates per PV</h2>
        <table className="health">
          <thead>
            <tr>
              <th scope="col">PV</th>
              <th scope="col">Updates/s</th>
              <th scope="col">Not received</th>
              <th scope="col">of these behind</th>
            </tr>
          </thead>
          <tbody>
            {PVS.map((pv) => (
              <Rate key={pv} name={`${prefix}:${pv}`} />
            ))}
          </tbody>
        </table>
      </section>
      <Latency client={client} names={PVS.map((pv) => `${prefix}:${pv}`)} />
    </div>
  );
}

function Fact({ name, text }: { readonly name: string; readonly text: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </div>
  );
}

function Rate({ name }: { readonly name: string }) {
  const rate = useRate(name);
  const { behind, total } = useSkipped(name);
  return (
    <tr data-rate-of={name}>
      <th scope="row">{name}</th>
      <td>{rate === undefined ? "–" : formatOneDigit(rate)}</td>
      <td>{formatCount(total)}</td>
      <td>{formatCount(behind)}</td>
    </tr>
  );
}

/** Upper ends of the histogram's bars, in milliseconds. */
const BARS_MS = [5, 10, 20, 50, 100, 200, 500, Infinity] as const;

/** From the IOC's time stamp until the browser has painted it. */
function Latency({
  client,
  names,
}: {
  readonly client: PvClient;
  readonly names: readonly string[];
}) {
  const [counts, setCounts] = useState<readonly number[]>([]);
  const key = names.join(" ");
  useEffect(() => measureLatency(client, key.split(" "), setCounts), [client, key]);
  const all = counts.reduce((sum, count) => sum + count, 0);
  return (
    <section className="panel" aria-label="Latency">
      <h2>From the IOC&apos;s time stamp to paint</h2>
      <p className="summary">
        {all === 0 ? "Measuring…" : `${formatCount(all)} updates`}; differences between the
        computers&apos; clocks are in it.
      </p>
      <ul className="bars">
        {BARS_MS.map((end, at) => {
          const share = all === 0 ? 0 : (100 * (counts[at] ?? 0)) / all;
          const label =
            end === Infinity ? `over ${String(BARS_MS.at(-2))} ms` : `up to ${String(end)} ms`;
          return (
            <li key={end}>
              <span>{label}</span>
              <span className="bar" aria-hidden="true">
                <span style={{ width: `${String(share)}%` }} />
              </span>
              <span className="bar-share">{`${formatOneDigit(share)} %`}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

interface Stamp {
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly connection: Pick<PvConnection, "connected">;
}

function measureLatency(
  client: PvClient,
  names: readonly string[],
  onCounts: (counts: readonly number[]) => void,
): () => void {
  const counts = BARS_MS.map(() => 0);
  const pvs = names.map((name) =>
    client.pv<Stamp>(name, "{ time { seconds nanoseconds } connection { connected } }"),
  );
  const seen = new Array<Stamp | undefined>(pvs.length);
  const note = (): void => {
    const fresh = pvs.flatMap((pv, at) => {
      const data = pv.getSnapshot();
      // What came on subscribing may be from long ago.
      const isFirst = seen[at]?.time == null;
      if (data === seen[at] || data?.time == null || !data.connection.connected) return [];
      seen[at] = data;
      return isFirst ? [] : [data.time];
    });
    if (fresh.length === 0) return;
    // Listeners are called before the page is painted, timers after.
    setTimeout(() => {
      const now = Date.now();
      for (const { nanoseconds, seconds } of fresh) {
        const ms = now - seconds * 1000 - nanoseconds / 1e6;
        const bar = BARS_MS.findIndex((end) => ms <= end);
        counts[bar] = (counts[bar] ?? 0) + 1;
      }
    }, 0);
  };
  const ends = pvs.map((pv) => pv.subscribe(note));
  const timer = window.setInterval(() => {
    onCounts([...counts]);
  }, 1000);
  return () => {
    window.clearInterval(timer);
    for (const end of ends) end();
  };
}
