/** What is known of a PV, besides its value. */

import { lazy, Suspense, useEffect, useState, type ReactNode } from "react";
import { t, type LastWrite, type PvAbout, type PvConnectionState, type PvRange } from "pvwire";
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
  return `${t`${end(range.min)} to ${end(range.max)}`} ${units}`.trimEnd();
};

function accessText({ connection, id, status }: Shown): string {
  if (!connection.connected) return "";
  if (!connection.readable) return t`no read access at the IOC`;
  if (status.writable === true) return t`read and write`;
  if (status.writable === null) return t`read; writing shows when it is tried`;
  if (status.mutable) return t`read only: the relay allows no writing`;
  return t`read only: ${noAccessText(id)}`;
}

/** The severity, the condition, and a message if it says more. A PV without a server has the alarm that it had. */
function alarmFact({ connection, status: { alarmStatus, message, severity } }: Shown): Fact {
  const isPresent = connection.connected && connection.lastHeard === null;
  const parts = [severity, alarmStatus, isPresent ? message : ""];
  const text = [...new Set(parts)].filter(Boolean).join(" ");
  return [isPresent ? t`Alarm` : t`Last alarm`, severity === null ? "" : text];
}

const stateText = (state: PvConnectionState): string =>
  ({
    connecting: t`searched`,
    notFound: t`not found; the search goes on`,
    connected: t`connected`,
    disconnected: t`disconnected`,
    relayLost: t`the relay is lost`,
    refused: t`refused by the relay`,
  })[state];

function factsOf(pv: Shown, isUtc: boolean): Fact[] {
  const { connection, display, time, value } = pv;
  const state = stateText(connection.state);
  const lastHeard = connection.lastHeard === null ? "" : isoText(connection.lastHeard, isUtc);
  const units = display?.units ?? "";
  const type =
    display?.typeId === "" ? display.type : `${display?.type ?? ""} ${display?.typeId ?? ""}`;
  const digits = display?.precision;
  return [
    [t`Name`, pv.id],
    [
      t`Connection`,
      connection.since === null ? state : t`${state} since ${isoText(connection.since, isUtc)}`,
    ],
    [t`Why`, connection.reason ?? ""],
    [t`Last answer`, lastHeard],
    [t`Access`, accessText(pv)],
    alarmFact(pv),
    [t`Exact value`, value?.exact !== value?.string ? (value?.exact ?? "") : ""],
    [t`Type`, display === null ? "" : type.trim()],
    [
      t`Elements`,
      (display?.elementCount ?? 1) > 1 ? t`up to ${String(display?.elementCount)}` : "",
    ],
    [t`Units`, units],
    [t`Digits`, digits == null ? "" : t`${String(digits)} after the point`],
    [t`Form`, display?.form ?? ""],
    [t`Choices`, display?.choices?.map((label, at) => `${String(at)} ${label}`).join(" · ") ?? ""],
    [t`Display range`, rangeText(display?.displayRange ?? null, units)],
    [t`Warning limits`, rangeText(display?.warningRange ?? null, units)],
    [t`Alarm limits`, rangeText(display?.alarmRange ?? null, units)],
    [t`Control limits`, rangeText(display?.controlRange ?? null, units)],
    [t`User tag`, time !== null && time.userTag !== 0 ? String(time.userTag) : ""],
  ];
}

export function PvFacts({ isUtc, name, pv }: PvFactsProps): ReactNode {
  const facts = pv === undefined ? [] : factsOf(pv, isUtc);
  const about = useAbout(name, pv?.connection.connected === true);
  const known: Fact[] = [
    [t`Server`, about?.server ?? ""],
    [t`Last write through this relay`, writeText(about?.lastWrite, isUtc)],
  ];
  return (
    <section className="panel pv-facts" aria-labelledby="pv-facts">
      <h2 id="pv-facts">{t`About this PV`}</h2>
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
    [t`this page was behind`, String(skipped.behind)],
    [t`this page was hidden`, String(skipped.paced)],
    [t`the relay was behind`, String(skipped.relay)],
    [t`the server merged them`, String(skipped.source)],
    [t`between relays`, String(skipped.bus)],
  ];
  const parts = causes
    .filter(([, count]) => count !== "0")
    .map(([why, count]) => `${count} ${why}`);
  return (
    <>
      <div>
        <dt>{t`Rate`}</dt>
        <dd data-part="rate">{rate === undefined ? "–" : t`${formatOneDigit(rate)} updates/s`}</dd>
      </div>
      <div>
        <dt>{t`Values not shown`}</dt>
        <dd>{parts.length === 0 ? t`none` : parts.join(" · ")}</dd>
      </div>
    </>
  );
}

/** Measured for those who ask. */
function Latency({ name }: { readonly name: string }) {
  const [isOn, setOn] = useState(false);
  return (
    <div>
      <dt>{t`Latency`}</dt>
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
            {t`Measure`}
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
  const who = user === null ? t`a client at ${address}` : t`${user} at ${address}`;
  const what = value === null ? t`an array` : String(value);
  const when = dateText(timeMs, isUtc);
  const text = t`${what} by ${who}, ${when}`;
  return confirmed ? text : t`${text}; the server has not confirmed it`;
}
