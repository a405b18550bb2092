/** The relay's own state. The page at `/status` has more, and needs no scripts. */

import { useEffect, useState, type ReactNode } from "react";
import { useConnection, useStats } from "pvwire/react";
import { formatCount, formatOneDigit } from "pvwire/widgets";

import { pvsText } from "./counts";
import { elsewhere, hrefOf, type Route } from "./route";
import { readStatus, type Status } from "./status";
import { ageText } from "./times";
import { useTitle } from "./title";

const EVERY_MS = 1000;

/** A relay that takes longer doesn't answer: its figures before aren't those of now. */
const PATIENCE_MS = 5000;

/** Longer values, such as addresses, have the room of two. */
const LONG = 14;

interface Read {
  readonly atMs: number;
  readonly status: Status | undefined;
  readonly why: string;
}

interface Reads {
  readonly now: Read | undefined;
  readonly before: Read | undefined;
}

function useStatus(): Reads {
  const [reads, setReads] = useState<Reads>({ now: undefined, before: undefined });
  useEffect(() => {
    let [isLeft, reading] = [false, new AbortController()];
    let timer: ReturnType<typeof setTimeout> | undefined;
    // One after the other: answers of a relay that was busy would come in any order.
    const read = async (): Promise<void> => {
      reading = new AbortController();
      const { signal } = reading;
      const patience = setTimeout(() => {
        reading.abort();
      }, PATIENCE_MS);
      const result = await readStatus(signal).catch(() => undefined);
      clearTimeout(patience);
      if (isLeft) return;
      const status = result?.ok === true ? result.data : undefined;
      const why = result === undefined ? "the relay doesn't answer" : result.ok ? "" : result.why;
      setReads(({ now }) => ({ before: now, now: { atMs: performance.now(), status, why } }));
      timer = setTimeout(() => void read(), EVERY_MS);
    };
    void read();
    return () => {
      isLeft = true;
      clearTimeout(timer);
      reading.abort();
    };
  }, []);
  return reads;
}

export default function HealthPage({ route }: { readonly route: Route }): ReactNode {
  const { before, now } = useStatus();
  const status = now?.status;
  useTitle("Health", now !== undefined && status === undefined ? "LOST" : "NO_ALARM");
  return (
    <div className="health-page">
      <h1>Health</h1>
      <section className="panel" aria-labelledby="health-relay">
        <h2 id="health-relay">The relay</h2>
        {status === undefined ? (
          <p className="note" role="status">
            {now === undefined ? "Asking…" : `No status: ${now.why}.`}
          </p>
        ) : (
          <Figures rows={figuresOf(status, now, before)} />
        )}
        {status?.nameServices?.map(
          ({ kind, address, failure }) =>
            failure !== null && (
              <p className="note" key={address}>
                {`The ${kind} ${address} ${failure}. The names that were read before are offered.`}
              </p>
            ),
        )}
        <p className="note">
          <a href="status">All clients, PVs and servers</a>
        </p>
      </section>
      <OwnConnection />
      {status !== undefined && <Servers status={status} />}
      {status !== undefined && <HealthPvs route={route} status={status} />}
    </div>
  );
}

type Figure = readonly [title: string, value: string, unit: string];

function figuresOf(status: Status, now: Read | undefined, before: Read | undefined): Figure[] {
  const seconds = ((now?.atMs ?? 0) - (before?.atMs ?? 0)) / 1000;
  const rate = (key: "updatesReceived" | "updatesSent" | "bytesSent", per = 1): string => {
    const last = before?.status?.[key];
    if (last === undefined || status[key] < last || seconds <= 0) return "–";
    return formatOneDigit((status[key] - last) / seconds / per);
  };
  const { connected, connecting, disconnected, notFound } = status.pvs;
  const lost = status.updatesSkipped.relay + status.updatesSkipped.source;
  return [
    ["Version", status.version, ""],
    ["Up for", ageText(1000 * status.uptimeSeconds), ""],
    ["Clients", formatCount(status.clients), ""],
    [
      "PVs connected",
      formatCount(connected),
      `of ${formatCount(connected + connecting + disconnected + notFound)}`,
    ],
    ["Disconnected", formatCount(disconnected), ""],
    ["Not found", formatCount(notFound), ""],
    ["Updates in", rate("updatesReceived"), "/s"],
    ["Updates out", rate("updatesSent"), "/s"],
    ["Data out", rate("bytesSent", 1000), "kB/s"],
    ["Lost before the relay", formatCount(lost), "updates"],
    ["Skipped for slow clients", formatCount(status.updatesSkipped.behind), "updates"],
  ];
}

function Figures({ rows }: { readonly rows: readonly Figure[] }) {
  return (
    <dl className="figures">
      {rows.map(([title, value, unit]) => (
        <div key={title} data-wide={value.length > LONG || undefined}>
          <dt>{title}</dt>
          <dd>
            {value} <small>{unit}</small>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function OwnConnection() {
  const { relayUrl, state } = useConnection();
  const stats = useStats();
  const trip = stats.roundTripMs;
  return (
    <section className="panel" aria-labelledby="health-page">
      <h2 id="health-page">This page</h2>
      <Figures
        rows={[
          ["Connection", state, ""],
          ["Address", relayUrl, ""],
          ["Round trip", trip === undefined ? "–" : formatOneDigit(trip), "ms"],
          ["Updates", formatOneDigit(stats.updatesPerSecond), "/s"],
          ["Reconnected", formatCount(stats.reconnectsTotal), "times"],
          ["Values not shown", formatCount(stats.skippedTotal), ""],
        ]}
      />
    </section>
  );
}

function Servers({ status }: { readonly status: Status }) {
  if (status.servers.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="health-servers">
      <h2 id="health-servers">Servers</h2>
      <ul className="alarm-list">
        {status.servers.map(({ name, pvs }) => (
          <li key={name}>
            {name} <span className="alarm-since">{pvsText(pvs)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const STATES = [
  ["Disconnected", "disconnected"],
  ["NotFound", "not found"],
  ["Connecting", "searched"],
  ["Connected", "connected"],
] as const;

const rankOf = (state: string): number => STATES.findIndex(([each]) => each === state);
const textOf = (state: string): string => STATES[rankOf(state)]?.[1] ?? state;

interface HealthPvsProps {
  readonly route: Route;
  readonly status: Status;
}

/** The relay's PVs by state, the worst first, with their servers. */
function HealthPvs({ route, status }: HealthPvsProps) {
  const [text, setText] = useState("");
  const { connected, connecting, disconnected, notFound } = status.pvs;
  const all = connected + connecting + disconnected + notFound;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = status.list
    .filter(({ name, server, state }) => {
      const row = `${name} ${textOf(state)} ${server ?? ""}`.toLowerCase();
      return words.every((word) => row.includes(word));
    })
    .sort((a, b) => rankOf(a.state) - rankOf(b.state) || (a.name < b.name ? -1 : 1));
  if (all === 0) return null;
  return (
    <section className="panel table-panel" aria-labelledby="health-pvs">
      <h2 id="health-pvs">PVs</h2>
      <div className="filters">
        <input
          type="search"
          aria-label="Parts of a name, state or server"
          placeholder="Name, state or server"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
          }}
        />
        <span className="note" role="status">
          {rows.length} of {pvsText(all)}
          {status.list.length < all && `; the relay lists ${String(status.list.length)} here`}
        </span>
      </div>
      <div className="table-room health-room" role="region" aria-label="Rows" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col" data-column="name">
                PV
              </th>
              <th scope="col">State</th>
              <th scope="col">Clients</th>
              <th scope="col">Server</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ clients, name, server, state }) => (
              <tr key={name} data-pv={name} data-state={state}>
                <td data-column="name">
                  <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
                </td>
                <td>{textOf(state)}</td>
                <td>{formatCount(clients)}</td>
                <td>{server ?? "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
