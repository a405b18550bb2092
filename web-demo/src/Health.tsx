/** The health page: the connection, the updates of each PV, and how long they take. */

import { Fragment, useMemo, useState, useSyncExternalStore, type ReactNode } from "react";
import type { PvClient } from "pvwire";
import { measureLatency, percentile, type Histogram } from "pvwire/latency";
import { useConnection, usePv, useRate, useSkipped } from "pvwire/react";
import { formatClock, formatCount, formatOneDigit } from "pvwire/widgets";

import { usePolled } from "./polled";

const PVS = ["RING:CURRENT", "RF:VOLTAGE", "VAC:PRESSURE", "RING:MODE", "N0000", "NOT_THERE"];

export interface HealthProps {
  readonly client: PvClient;
  readonly prefix: string;
}

export function Health({ client, prefix }: HealthProps): ReactNode {
  const { attempt, reason, relayInstance, relayVersion, sinceMs, state } = useConnection();
  return (
    <div className="stacks">
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
        {/* Focusable, so that it can be scrolled without a mouse. */}
        <div className="table-room" role="region" aria-label="Table of rates" tabIndex={0}>
          <table className="health">
            <thead>
              <tr>
                <th scope="col">PV</th>
                <th scope="col">Updates/s</th>
                <th scope="col">Skipped</th>
                <th scope="col">Behind</th>
              </tr>
            </thead>
            <tbody>
              {PVS.map((pv) => (
                <Rate key={pv} name={`${prefix}:${pv}`} />
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <RelayPanel />
      <LatencyPanel client={client} names={PVS.map((pv) => `${prefix}:${pv}`)} />
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
  const pv = usePv(name, "{ connection { connected unresponsive } }");
  // A PV that isn't there has no rate, which isn't a rate of 0.
  const isPresent = pv?.connection.connected === true && !pv.connection.unresponsive;
  return (
    <tr data-rate-of={name}>
      <th scope="row">
        {name.split(/(?<=:)/).map((part, index) => (
          <Fragment key={index}>
            {part}
            <wbr />
          </Fragment>
        ))}
      </th>
      <td>{isPresent && rate !== undefined ? formatOneDigit(rate) : "–"}</td>
      <td>{formatCount(total)}</td>
      <td>{formatCount(behind)}</td>
    </tr>
  );
}

/** The time from the IOC's time stamp until the browser has painted the update, and its parts. */
function LatencyPanel({
  client,
  names,
}: {
  readonly client: PvClient;
  readonly names: readonly string[];
}) {
  const key = names.join(" ");
  const latency = useMemo(() => measureLatency(client, key.split(" ")), [client, key]);
  const { callbackToPaint, clock, fromTheFuture, stampToCallback, stampToPaint } =
    useSyncExternalStore(latency.subscribe, latency.getSnapshot);
  const sentence =
    stampToPaint.count === 0 ? "Measuring…" : `${formatCount(stampToPaint.count)} updates`;
  return (
    <section className="panel" aria-label="Latency">
      <h2>From the IOC&apos;s time stamp to paint</h2>
      <p className="summary">
        {sentence}
        {clock !== undefined &&
          `; the relay's clock is ${ahead(clock.offsetMs)} this computer's, ±${formatOneDigit(clock.uncertaintyMs)} ms, corrected`}
        .
        {fromTheFuture > 0 &&
          ` ${formatCount(fromTheFuture)} more were stamped in the future by more than that: the IOC's clock is ahead of the relay's.`}
      </p>
      <Bars endsMs={stampToPaint.endsMs} counts={stampToPaint.counts} />
      <dl className="facts">
        <Fact name="Stamp to callback" text={quantiles(stampToCallback)} />
        <Fact name="Callback to paint" text={quantiles(callbackToPaint)} />
        <Fact name="Stamp to paint" text={quantiles(stampToPaint)} />
        <Fact name="Round trip" text={milliseconds(clock?.roundTripMs)} />
      </dl>
    </section>
  );
}

function ahead(offsetMs: number): string {
  const ms = `${formatOneDigit(Math.abs(offsetMs))} ms`;
  return offsetMs < 0 ? `${ms} behind` : `${ms} ahead of`;
}

function milliseconds(ms: number | undefined): string {
  return ms === undefined ? "–" : `${formatOneDigit(ms)} ms`;
}

function quantiles(histogram: Histogram): string {
  const [half, most] = [percentile(histogram, 50), percentile(histogram, 99)];
  if (half === undefined || most === undefined) return "–";
  return `p50 ${atMost(half, histogram)}, p99 ${atMost(most, histogram)}`;
}

function atMost(endMs: number, { endsMs }: Histogram): string {
  return endMs === Infinity ? `over ${String(endsMs.at(-2))} ms` : `≤ ${String(endMs)} ms`;
}

/** The histogram buckets from the first to the last that is not empty. */
function Bars({ counts, endsMs }: Pick<Histogram, "counts" | "endsMs">) {
  const all = counts.reduce((sum, count) => sum + count, 0);
  const last = counts.findLastIndex((count) => count > 0);
  return (
    <ul className="bars">
      {endsMs.slice(0, Math.max(6, last + 1)).map((end, at) => {
        const share = all === 0 ? 0 : (100 * (counts[at] ?? 0)) / all;
        const label =
          end === Infinity ? `over ${String(endsMs.at(-2))} ms` : `up to ${String(end)} ms`;
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
  );
}

/** The parts of the relay's `/status` that are shown here. */
interface RelayStatus {
  readonly uptimeSeconds: number;
  readonly clients: number;
  readonly monitors: number;
  readonly pvs: Readonly<Record<"connected" | "disconnected" | "notFound", number>>;
  readonly tickMilliseconds: number;
  readonly updatesReceived: number;
  readonly updatesSent: number;
  readonly updatesSkipped: Readonly<Record<"relay" | "source" | "behind", number>>;
  readonly updateAge: {
    readonly endsMilliseconds: readonly number[];
    readonly received: { readonly counts: readonly number[] };
    readonly sent: { readonly counts: readonly number[] };
  };
}

const STATUS_EVERY_MS = 2000;

/** The relay's figures for all of its clients. */
function RelayPanel() {
  const { atMs, data } = usePolled<RelayStatus>("relay/status", STATUS_EVERY_MS);
  const [last, setLast] = useState({ data, atMs });
  const [before, setBefore] = useState(last);
  if (last.atMs !== atMs) {
    setBefore(last);
    setLast({ data, atMs });
  }
  const rate = (of: (status: RelayStatus) => number): string => {
    if (data === undefined || before.data === undefined) return "–";
    const difference = of(data) - of(before.data);
    const seconds = ((atMs ?? 0) - (before.atMs ?? 0)) / 1000;
    return difference < 0 ? "–" : `${formatCount(Math.round(difference / seconds))} /s`;
  };
  const age = (counts: readonly number[]): string => {
    const endsMs = [...(data?.updateAge.endsMilliseconds ?? []), Infinity];
    const count = counts.reduce((sum, some) => sum + some, 0);
    return quantiles({ endsMs, counts, count, sumMs: 0 });
  };
  return (
    <section className="panel" aria-label="Relay">
      <h2>Relay</h2>
      {data === undefined ? (
        <p className="summary">
          {atMs === undefined
            ? "Asking…"
            : "It doesn't answer, or this page doesn't lead to its status."}
        </p>
      ) : (
        <dl className="facts">
          <Fact name="Up for" text={`${formatCount(data.uptimeSeconds)} s`} />
          <Fact name="Clients" text={formatCount(data.clients)} />
          <Fact name="Monitors" text={formatCount(data.monitors)} />
          <Fact
            name="PVs"
            text={`${formatCount(data.pvs.connected)} connected, ${formatCount(data.pvs.disconnected)} disconnected, ${formatCount(data.pvs.notFound)} not found`}
          />
          <Fact name="Updates in" text={rate((status) => status.updatesReceived)} />
          <Fact name="Updates out" text={rate((status) => status.updatesSent)} />
          <Fact
            name="Lost before the relay"
            text={formatCount(data.updatesSkipped.relay + data.updatesSkipped.source)}
          />
          <Fact name="Left out for slow clients" text={formatCount(data.updatesSkipped.behind)} />
          <Fact name="Tick" text={milliseconds(data.tickMilliseconds)} />
          <Fact name="Stamp to receipt" text={age(data.updateAge.received.counts)} />
          <Fact name="Stamp to sent" text={age(data.updateAge.sent.counts)} />
        </dl>
      )}
    </section>
  );
}
