/** The words for a PV's condition: its alarm, or why its value can't be trusted. */

import { useEffect, useState, useSyncExternalStore } from "react";

import { useClient } from "../react/provider.js";
import { useSameOptions } from "../react/pv.js";
import type {
  ConnectionSnapshot,
  PvClient,
  PvConnection,
  PvConnectionState,
  PvOptions,
  PvStatus,
  PvTime,
  Severity,
} from "../types.js";
import { t } from "../texts.js";
import { formatClock } from "./format.js";

/** Fields that every widget selects. */
export const CONDITION_FIELDS = `
  time { seconds nanoseconds }
  status { severity alarmStatus message }
  connection { state connected since lastHeard unresponsive readable reason }
`;

/** The result of CONDITION_FIELDS. */
export interface ConditionData {
  /** `null` before the first value. */
  readonly value: unknown;
  /** Time stamp of the value; `null` where the server gives none. */
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  /** The alarm. */
  readonly status: Pick<PvStatus, "severity" | "alarmStatus" | "message">;
  /** The connection, with the reason why there is no value. */
  readonly connection: Pick<
    PvConnection,
    "state" | "connected" | "since" | "lastHeard" | "unresponsive" | "readable" | "reason"
  >;
}

interface StaleData {
  readonly value?: unknown;
  readonly time: ConditionData["time"];
  readonly connection: Pick<PvConnection, "connected">;
}

/** A PV's condition, as the widgets show it. */
export interface Condition {
  /** The connection's state. */
  readonly state: PvConnectionState;
  /** An alarm describes the present: a disconnected PV has no alarm. */
  readonly severity: Severity | undefined;
  /** There is a current value from a server that answers. */
  readonly isPresent: boolean;
  /** Connected, but without an update for longer than `staleAfterMs`. */
  readonly isStale: boolean;
  /** The condition as text, so that colour is never the only sign. */
  readonly text: string;
}

/**
 * The condition of a PV. With `staleAfterMs`, a PV without an update for this time is stale: for PVs
 * that are known to change. With `name` and the `options` of its hook, updates are counted that
 * change neither the value nor its time stamp.
 */
export function useCondition(
  pv: ConditionData | undefined,
  staleAfterMs?: number,
  name?: string,
  options?: PvOptions,
): Condition {
  const isSilent = pv?.connection.unresponsive === true;
  const isStale = useStale(pv, staleAfterMs, name, options) || isSilent;
  return conditionOf(pv, isStale, useUnreached(pv));
}

/** The condition of a PV that is known to be stale or not; `unreached` is of `unreachedText`. */
export function conditionOf(
  pv: ConditionData | undefined,
  isStale: boolean,
  unreached: string | undefined,
): Condition {
  const state = pv?.connection.state ?? "connecting";
  const isAnswering = pv?.connection.connected === true && !pv.connection.unresponsive;
  const severity = isAnswering ? (pv.status.severity ?? undefined) : undefined;
  const isPresent = isAnswering && pv.connection.readable && pv.value !== null;
  return { state, severity, isPresent, isStale, text: unreached ?? conditionText(pv, isStale) };
}

/**
 * The text for a PV of a page that has never had a connection to a relay, because the relay or the
 * package's module can't be reached: what is wrong, and who acts.
 */
export function useUnreached(
  pv: { readonly connection: Pick<PvConnection, "state"> } | undefined,
): string | undefined {
  const { connection } = useClient() as Partial<PvClient>;
  const isAway = pv === undefined || pv.connection.state === "relayLost";
  const listened = isAway ? connection : undefined;
  return useSyncExternalStore(
    listened?.subscribe ?? listenToNothing,
    () => unreachedText(listened?.getSnapshot()),
    () => undefined,
  );
}

const listenToNothing = (): (() => void) => () => undefined;

/** Why a page has never had a connection to a relay; `undefined` if it has had one. */
export function unreachedText(connection: ConnectionSnapshot | undefined): string | undefined {
  if (connection === undefined || connection.relayInstance !== undefined) return undefined;
  const { reason, state } = connection;
  if (state !== "lost" && state !== "closed") return undefined;
  return reason === undefined
    ? t`Not connected to a relay`
    : t`Not connected to a relay: ${reason}`;
}

/** Limits of the interval at which updates are counted. */
const COUNT_MS = { least: 50, most: 1000 } as const;

/** Whether a connected PV has had no update for `staleAfterMs`. */
export function useStale(
  pv: StaleData | undefined,
  staleAfterMs: number | undefined,
  name = "",
  options?: PvOptions,
): boolean {
  const client = useClient();
  const same = useSameOptions(options);
  const { time, value } = pv ?? {};
  const [stale, setStale] = useState<{ name: string; time: unknown; value: unknown }>();
  useEffect(() => {
    if (staleAfterMs === undefined) return;
    const countOf = (): number | undefined => client.inspect(name, same)?.updatesReceived;
    let count = countOf();
    let heardAt = performance.now();
    const check = (): void => {
      const now = performance.now();
      const received = countOf();
      if (received !== count) heardAt = now;
      count = received;
      setStale((before) => {
        if (now - heardAt < staleAfterMs) return undefined;
        const isSame = before?.name === name && before.time === time && before.value === value;
        return isSame ? before : { name, time, value };
      });
    };
    const { least, most } = COUNT_MS;
    const timer = setInterval(check, Math.min(most, Math.max(least, staleAfterMs / 4)));
    return () => {
      clearInterval(timer);
    };
  }, [client, name, same, time, value, staleAfterMs]);
  const isSame = stale?.name === name && stale.time === time && stale.value === value;
  return staleAfterMs !== undefined && pv?.connection.connected === true && isSame;
}

/** The text that says why a PV that isn't `mutable` can't be written: who denies it, or what the PV is. */
export function noAccessText(name: string): string {
  if (/^(=|eq:)/.test(name)) return t`A formula can't be written`;
  return /^s?sim:/.test(name)
    ? t`Simulated PVs can't be written`
    : t`The IOC gives no write access`;
}

/** The text for a PV whose server has stopped answering. */
export function silentText(lastHeard: string | null): string {
  return lastHeard === null ? t`No response` : t`No response since ${clock(lastHeard)}`;
}

const clock = (datetime: string): string => formatClock(Date.parse(datetime));

/** The text for a stale PV. */
export function staleText(time: ConditionData["time"]): string {
  return time === null
    ? t`Stale: no update`
    : t`Stale: no update since ${formatClock(time.seconds * 1000)}`;
}

function conditionText(pv: ConditionData | undefined, isStale: boolean): string {
  if (pv === undefined) return t`Connecting…`;
  const { connection, status, time, value } = pv;
  const { reason } = connection;
  switch (connection.state) {
    case "connecting":
      return reason === null ? t`Connecting…` : t`Connecting: ${reason}`;
    case "notFound":
      return reason === null ? t`Not found · still searching` : t`Not found: ${reason}`;
    case "disconnected":
    case "relayLost": {
      // A value is outdated since its server was last heard from, which may be long before the loss was
      // noticed.
      const begin = value === null ? connection.since : (connection.lastHeard ?? connection.since);
      const since = begin === null ? "–" : clock(begin);
      const age = value === null ? t`since ${since}` : t`· old since ${since}`;
      return connection.state === "relayLost" ? t`Relay lost ${age}` : t`Disconnected ${age}`;
    }
    case "refused":
      return t`Refused: ${reason ?? t`no reason given`}`;
    case "connected": {
      if (connection.unresponsive) return silentText(connection.lastHeard);
      if (!connection.readable) return t`No read access`;
      if (value === null) return reason ?? t`Waiting for the first value`;
      // With a reason the value lacks its labels and units.
      const parts = [isStale ? staleText(time) : "", alarmText(status), reason ?? ""];
      return parts.filter((text) => text !== "").join(" · ");
    }
  }
}

/** The severity and the alarm condition; a message only if it adds information. */
function alarmText({ alarmStatus, message, severity }: ConditionData["status"]): string {
  if (severity === null) return t`The server gives no alarm`;
  if (severity === "NO_ALARM") return t`No alarm`;
  return [...new Set([severity, alarmStatus, message])].filter(Boolean).join(" ");
}
