/** The relay's own state. The page at `/status` has more, and needs no scripts. */

import { useEffect, useState, type ReactNode } from "react";
import { t } from "pvwire";
import { percentile } from "pvwire/latency";
import { useConnection, useStats } from "pvwire/react";
import { formatCount, formatOneDigit } from "pvwire/widgets";

import { Fleet, HealthClients, HealthPvs, Servers, Sources } from "./HealthLists";
import type { Route } from "./route";
import { readStatus, type Status } from "./status";
import { ageText } from "./times";
import { useTitle } from "./title";

const EVERY_MS = 1000;

/** A relay that takes longer doesn't answer: its figures before aren't those of now. */
const PATIENCE_MS = 5000;

/** Longer values, such as addresses, have the room of two. */
const LONG = 14;

export interface Read {
  readonly atMs: number;
  readonly status: Status | undefined;
  readonly why: string;
}

/** Latencies are those of this many intervals. */
const KEPT = 10;

/** The newest reads, the last one first. */
function useStatus(): readonly Read[] {
  const [reads, setReads] = useState<readonly Read[]>([]);
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
      const why = result === undefined ? t`the relay doesn't answer` : result.ok ? "" : result.why;
      const last = { atMs: performance.now(), status, why };
      setReads((before) => [last, ...before.slice(0, KEPT)]);
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
  const reads = useStatus();
  const [now, before] = reads;
  const status = now?.status;
  const latency = latencyText(reads);
  useTitle(t`Health`, now !== undefined && status === undefined ? "LOST" : "NO_ALARM");
  return (
    <div className="health-page">
      <h1>{t`Health`}</h1>
      <section className="panel" aria-labelledby="health-relay">
        <h2 id="health-relay">{t`The relay`}</h2>
        {status === undefined ? (
          <p className="note" role="status">
            {now === undefined ? t`Asking…` : t`No status: ${now.why}.`}
          </p>
        ) : (
          <>
            <Figures rows={figuresOf(status, now, before)} />
            {latency !== "" && <p className="note">{latency}</p>}
          </>
        )}
        {status?.nameServices?.map(
          ({ kind, address, failure }) =>
            failure !== null && (
              <p className="note" key={address}>
                {t`The ${kind} ${address} ${failure}. The names that were read before are offered.`}
              </p>
            ),
        )}
        <p className="note">
          <a href="status">{t`The relay's own page, which needs no scripts`}</a>
        </p>
      </section>
      <OwnConnection />
      {status !== undefined && (
        <>
          <Limits status={status} now={now} before={before} />
          <HealthClients {...{ route, status, now, before }} />
          <Fleet {...{ route, status, now, before }} />
          <Sources {...{ route, status, now, before }} />
          <Servers {...{ route, status, now, before }} />
          <HealthPvs {...{ route, status, now, before }} />
        </>
      )}
    </div>
  );
}

/** How old updates are when they leave the relay, in words. */
function latencyText(reads: readonly Read[]): string {
  const [now] = reads;
  const then = reads.findLast(({ status }) => status?.instance === now?.status?.instance);
  const [after, before] = [now?.status?.updateAge, then?.status?.updateAge];
  if (now === undefined || then === undefined || after === undefined || before === undefined)
    return "";
  const seconds = Math.round((now.atMs - then.atMs) / 1000);
  if (seconds === 0) return t`Measuring how long updates take…`;
  const counts = after.sent.counts.map((count, at) => count - (before.sent.counts[at] ?? 0));
  const count = counts.reduce((sum, each) => sum + each, 0);
  const last = t`in the last ${String(seconds)} s`;
  if (count === 0) return t`No update was sent ${last}.`;
  const endsMs = [...after.endsMilliseconds, Infinity];
  const within = (percent: number): string => {
    const ms = percentile({ endsMs, counts, count, sumMs: 0 }, percent) ?? Infinity;
    return ms === Infinity ? t`after more than 5 s` : t`within ${String(ms)} ms`;
  };
  return t`Half of the updates left the relay ${within(50)}, 99 % ${within(99)} of their server's time stamp (${count} measured ${last}).`;
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
    [t`Version`, status.version, ""],
    [t`Up for`, ageText(1000 * status.uptimeSeconds), ""],
    [t`Clients`, formatCount(status.clients), ""],
    [
      t`PVs connected`,
      formatCount(connected),
      t`of ${formatCount(connected + connecting + disconnected + notFound)}`,
    ],
    [t`Disconnected`, formatCount(disconnected), ""],
    [t`Not found`, formatCount(notFound), ""],
    [t`Updates in`, rate("updatesReceived"), "/s"],
    [t`Updates out`, rate("updatesSent"), "/s"],
    [t`Data out`, rate("bytesSent", 1000), "kB/s"],
    [t`Lost before the relay`, formatCount(lost), t`updates`],
    [t`Skipped for slow clients`, formatCount(status.updatesSkipped.behind), t`updates`],
  ];
}

const MEGABYTE = 1e6;

interface LimitsProps {
  readonly status: Status;
  readonly now: Read | undefined;
  readonly before: Read | undefined;
}

/** What the operator has set, and how much of it is used. */
function Limits({ before, now, status }: LimitsProps): ReactNode {
  const { limits, memoryBytes, operations } = status;
  if (limits === undefined) return null;
  const of = (limit: number): string => (limit === 0 ? t`no limit` : t`of ${formatCount(limit)}`);
  const megabytes = (bytes: number): string => formatCount(Math.round(bytes / MEGABYTE));
  const seconds = ((now?.atMs ?? 0) - (before?.atMs ?? 0)) / 1000;
  const puts = (operations ?? 0) - (before?.status?.operations ?? NaN);
  const largest = Math.max(0, ...(status.clientList ?? []).map(({ pvs }) => pvs ?? 0));
  return (
    <section className="panel" aria-labelledby="health-limits">
      <h2 id="health-limits">{t`Limits`}</h2>
      <Figures
        rows={[
          [t`Clients`, formatCount(status.clients), of(limits.clients)],
          [t`PVs`, formatCount(status.monitors), of(limits.pvs)],
          [
            t`Memory`,
            memoryBytes == null ? "–" : megabytes(memoryBytes),
            t`of ${megabytes(limits.memoryBytes)} MB`,
          ],
          [t`Most PVs of a client`, formatCount(largest), of(limits.subscriptionsPerClient)],
          [
            t`Puts and calls`,
            puts >= 0 && seconds > 0 ? formatOneDigit(puts / seconds) : "–",
            limits.putsPerSecond === 0
              ? "/s"
              : t`/s, ${formatCount(limits.putsPerSecond)} a client`,
          ],
        ]}
      />
      {status.shortOfMemory && (
        <p className="note">{t`The relay is short of memory: it refuses new clients and PVs.`}</p>
      )}
    </section>
  );
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
      <h2 id="health-page">{t`This page`}</h2>
      <Figures
        rows={[
          [t`Connection`, state, ""],
          [t`Address`, relayUrl, ""],
          [t`Round trip`, trip === undefined ? "–" : formatOneDigit(trip), "ms"],
          [t`Updates`, formatOneDigit(stats.updatesPerSecond), "/s"],
          [t`Reconnected`, formatCount(stats.reconnectsTotal), t`times`],
          [t`Values not shown`, formatCount(stats.skippedTotal), ""],
        ]}
      />
    </section>
  );
}
