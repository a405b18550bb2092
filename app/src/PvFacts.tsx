/** What is known of a PV, besides its value. */

import { lazy, Suspense, useEffect, useState, type ReactNode } from "react";
import type { LastWrite, PvAbout, PvRange } from "pvwire";
import { useClient, useRate, useSkipped } from "pvwire/react";
import { formatOneDigit, noAccessText } from "pvwire/widgets";

import type { Shown } from "./PvPage";
import { dateText, isoText } from "./times";

const PvLatency = lazy(() => import("./PvLatency"));

interface PvFactsProps {
  readonly name: string;
  readonly pv: Shown | undefined;
  readonly isUtc: boolean;
}

type Fact = readonly [title: string, text: string];

const rangeText = (range: PvRange | null, units: string): string => {
  if (range === null) return "";
  const end = (limit: number | null): string => (limit === null ? "–" : String(limit));
  return `${end(range.min)} to ${end(range.max)}${units === "" ? "" : ` ${units}`}`;
};

function accessText({ connection, id, status }: Shown): string {
  if (!connection.connected) return "";
  if (!connection.readable) return "no read access at the IOC";
  if (status.writable === true) return "read and write";
  if (status.writable === null) return "read; writing shows when it is tried";
  if (status.mutable) return "read only: the relay allows no writing";
  return `read only: ${noAccessText(id)}`;
}

/** The severity, the condition, and a message if it says more. A PV without a server has the alarm that it had. */
function alarmFact({ connection, status: { alarmStatus, message, severity } }: Shown): Fact {
  const isPresent = connection.connected && connection.lastHeard === null;
  const parts = [severity, alarmStatus, isPresent ? message : ""];
  const text = [...new Set(parts)].filter(Boolean).join(" ");
  return [isPresent ? "Alarm" : "Last alarm", severity === null ? "" : text];
}

const STATES = {
  connecting: "searched",
  notFound: "not found; the search goes on",
  connected: "connected",
  disconnected: "disconnected",
  relayLost: "the relay is lost",
  refused: "refused by the relay",
} as const;

function factsOf(pv: Shown, isUtc: boolean): Fact[] {
  const { connection, display, time, value } = pv;
  const since = connection.since === null ? "" : ` since ${isoText(connection.since, isUtc)}`;
  const lastHeard = connection.lastHeard === null ? "" : isoText(connection.lastHeard, isUtc);
  const units = display?.units ?? "";
  const type =
    display?.typeId === "" ? display.type : `${display?.type ?? ""} ${display?.typeId ?? ""}`;
  const digits = display?.precision;
  return [
    ["Name", pv.id],
    ["Connection", `${STATES[connection.state]}${since}`],
    ["Why", connection.reason ?? ""],
    ["Last answer", lastHeard],
    ["Access", accessText(pv)],
    alarmFact(pv),
    ["Exact value", value?.exact !== value?.string ? (value?.exact ?? "") : ""],
    ["Type", display === null ? "" : type.trim()],
    ["Elements", (display?.elementCount ?? 1) > 1 ? `up to ${String(display?.elementCount)}` : ""],
    ["Units", units],
    ["Digits", digits == null ? "" : `${String(digits)} after the point`],
    ["Form", display?.form ?? ""],
    ["Choices", display?.choices?.map((label, at) => `${String(at)} ${label}`).join(" · ") ?? ""],
    ["Display range", rangeText(display?.displayRange ?? null, units)],
    ["Warning limits", rangeText(display?.warningRange ?? null, units)],
    ["Alarm limits", rangeText(display?.alarmRange ?? null, units)],
    ["Control limits", rangeText(display?.controlRange ?? null, units)],
    ["User tag", time !== null && time.userTag !== 0 ? String(time.userTag) : ""],
  ];
}

export function PvFacts({ isUtc, name, pv }: PvFactsProps): ReactNode {
  const facts = pv === undefined ? [] : factsOf(pv, isUtc);
  const about = useAbout(name, pv?.connection.connected === true);
  const known: Fact[] = [
    ["Server", about?.server ?? ""],
    ["Last write through this relay", writeText(about?.lastWrite, isUtc)],
  ];
  return (
    <section className="panel pv-facts" aria-labelledby="pv-facts">
      <h2 id="pv-facts">About this PV</h2>
      <dl className="facts">
        {[...facts, ...known]
          .filter(([, text]) => text !== "")
          .map(([title, text]) => (
            <div key={title}>
              <dt>{title}</dt>
              <dd>{text}</dd>
            </div>
          ))}
        <Traffic name={name} />
        <Latency name={name} />
      </dl>
    </section>
  );
}

/** Renders once a second, alone. */
function Traffic({ name }: { readonly name: string }) {
  const rate = useRate(name);
  const skipped = useSkipped(name);
  const causes: Fact[] = [
    ["this page was behind", String(skipped.behind)],
    ["this page was hidden", String(skipped.paced)],
    ["the relay was behind", String(skipped.relay)],
    ["the server merged them", String(skipped.source)],
    ["between relays", String(skipped.bus)],
  ];
  const parts = causes
    .filter(([, count]) => count !== "0")
    .map(([why, count]) => `${count} ${why}`);
  return (
    <>
      <div>
        <dt>Rate</dt>
        <dd data-part="rate">{rate === undefined ? "–" : `${formatOneDigit(rate)} updates/s`}</dd>
      </div>
      <div>
        <dt>Values not shown</dt>
        <dd>{parts.length === 0 ? "none" : parts.join(" · ")}</dd>
      </div>
    </>
  );
}

/** Measured for those who ask. */
function Latency({ name }: { readonly name: string }) {
  const [isOn, setOn] = useState(false);
  return (
    <div>
      <dt>Latency</dt>
      <dd data-part="latency">
        {isOn ? (
          <Suspense fallback={null}>
            <PvLatency name={name} />
          </Suspense>
        ) : (
          <button
            type="button"
            onClick={() => {
              setOn(true);
            }}
          >
            Measure
          </button>
        )}
      </dd>
    </div>
  );
}

const ABOUT_EVERY_MS = 2000;

/** What the relay knows of a PV; asked again and again, because other users may write to it. */
function useAbout(name: string, isFound: boolean): PvAbout | undefined {
  const client = useClient();
  const [found, setFound] = useState<{ readonly name: string; readonly about: PvAbout }>();
  useEffect(() => {
    if (!isFound) return;
    let [isLeft, timer] = [false, undefined as ReturnType<typeof setTimeout> | undefined];
    const ask = async (): Promise<void> => {
      // A relay of another version may not answer it.
      const about = document.hidden ? undefined : await client.about(name).catch(() => undefined);
      if (isLeft) return;
      if (about !== undefined) setFound({ name, about });
      timer = setTimeout(() => void ask(), ABOUT_EVERY_MS);
    };
    void ask();
    return () => {
      isLeft = true;
      clearTimeout(timer);
    };
  }, [client, isFound, name]);
  return found?.name === name ? found.about : undefined;
}

function writeText(write: LastWrite | null | undefined, isUtc: boolean): string {
  if (write == null) return "";
  const { address, confirmed, timeMs, user, value } = write;
  const who = user === null ? `a client at ${address}` : `${user} at ${address}`;
  const what = value === null ? "an array" : String(value);
  const when = dateText(timeMs, isUtc);
  const text = `${what} by ${who}, ${when}`;
  return confirmed ? text : `${text}; the server has not confirmed it`;
}
