/**
 * The states of a list of PVs. Each PV has one listener for its alarm and connection; values are read by the rows that
 * are on the screen, and for sorting once a second.
 */

import { useMemo, useSyncExternalStore } from "react";
import type { PvClient, PvConnection, PvDisplay, PvStatus, PvTime, PvValue } from "pvwire";
import { useClient } from "pvwire/react";

import { kindOf, KINDS, type Kind, type StateData } from "./pv_kind";

const STATE = "{ status { severity } connection { state unresponsive readable } }";

/** Listened to only until a PV without an alarm has a value. */
const VALUE = "{ value { number } }";

export const ROW = `{
  value { string(units: true) number }
  time { seconds nanoseconds }
  status { severity alarmStatus message mutable writable }
  display { description type }
  connection { state connected since lastHeard unresponsive readable reason }
}`;

/** What tables have of a PV, now or then. */
export interface ValueData {
  readonly value: Pick<PvValue, "string" | "number"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly status: Pick<PvStatus, "severity" | "alarmStatus" | "message">;
  /** Why there was no value at a past moment. */
  readonly missing?: string;
}

export interface RowData extends ValueData {
  readonly status: Pick<PvStatus, "severity" | "alarmStatus" | "message" | "mutable" | "writable">;
  readonly display: Pick<PvDisplay, "description" | "type"> | null;
  readonly connection: PvConnection;
}

/** A PV of a list, now or then. */
export interface Row<T extends ValueData = ValueData> {
  readonly name: string;
  /** Its place in the list. */
  readonly at: number;
  kind: Kind;
  readonly read: () => T | undefined;
}

export interface LiveRow extends Row<RowData> {
  /** When `kind` began, as this page knows it. */
  sinceMs: number;
  /** It may have begun earlier: the page found an alarm, of which it knows the newest update only. */
  isEarlier: boolean;
  /** The value with which an alarm began, with its units; empty if it is not known. */
  then: string;
  /** How often it has left `NO_ALARM` since the page was opened. */
  alarms: number;
}

/** The rows of a list and their states, now or then. */
export interface ListStates {
  readonly rows: readonly Row[];
  readonly counts: Readonly<Record<Kind, number>>;
}

/** Of a list whose PVs are searched. */
const countsOf = (names: readonly string[]): Record<Kind, number> => ({
  MAJOR: 0,
  INVALID: 0,
  gone: 0,
  MINOR: 0,
  searched: names.length,
  NO_ALARM: 0,
});

/** Changes are shown at most this often. */
const SHOWN_EVERY_MS = 150;

/** A list that is followed while it has listeners. */
export abstract class FollowedList<R extends Row> implements ListStates {
  abstract readonly rows: readonly R[];
  readonly counts: Record<Kind, number>;
  /** Changes with the rows. */
  version = 0;
  #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(names: readonly string[]) {
    this.counts = countsOf(names);
  }

  protected abstract start(): void;
  protected abstract stop(): void;

  readonly subscribe = (listener: () => void): (() => void) => {
    if (this.#listeners.size === 0) this.start();
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.stop();
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  };

  readonly getSnapshot = (): number => this.version;

  /** Changes a row's kind; listeners hear of it with others. */
  protected become(row: R, kind: Kind): void {
    this.counts[row.kind] -= 1;
    this.counts[kind] += 1;
    row.kind = kind;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.version += 1;
      for (const listener of this.#listeners) listener();
    }, SHOWN_EVERY_MS);
  }
}

export class PvList extends FollowedList<LiveRow> {
  override readonly rows: readonly LiveRow[];
  #client: PvClient;
  #ends: (() => void)[] = [];
  #worst: Kind | undefined;

  constructor(client: PvClient, names: readonly string[]) {
    super(names);
    this.#client = client;
    const now = Date.now();
    this.rows = names.map((name, at) => {
      const pv = client.pv<RowData>(name, ROW);
      return {
        name,
        at,
        kind: "searched",
        sinceMs: now,
        isEarlier: false,
        then: "",
        alarms: 0,
        read: () => pv.getSnapshot(),
      };
    });
  }

  /** Waits until no PV is searched any more, at most for this long. */
  readonly whenFound = (patienceMs: number): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        stop();
        clearTimeout(timer);
        resolve();
      };
      const check = (): void => {
        if (this.counts.searched === 0) end();
      };
      const timer = setTimeout(end, patienceMs);
      const stop = this.subscribe(check);
      check();
    });

  protected override start(): void {
    this.#ends = this.rows.map((row) => {
      const state = this.#client.pv<StateData>(row.name, STATE);
      let endValue: (() => void) | undefined;
      const hasValue = (): boolean => {
        const pv = this.#client.pv<Pick<RowData, "value">>(row.name, VALUE);
        const has = pv.getSnapshot()?.value != null;
        if (!has) endValue ??= pv.subscribe(check);
        return has;
      };
      const check = (): void => {
        const kind = kindOf(state.getSnapshot(), hasValue);
        if (kind !== "gone") {
          endValue?.();
          endValue = undefined;
        }
        this.#sees(row, kind);
      };
      const end = state.subscribe(check);
      check();
      return () => {
        end();
        endValue?.();
      };
    });
  }

  protected override stop(): void {
    for (const end of this.#ends) end();
    this.#ends = [];
  }

  #sees(row: LiveRow, kind: Kind): void {
    if (row.kind === kind) return;
    // The first state of a PV is what the page found, and an alarm that changes is the same one.
    if (row.kind === "NO_ALARM" && kind !== "searched") row.alarms += 1;
    row.sinceMs = sinceOf(row, kind);
    row.isEarlier = isAlarm(kind) && !isSeen(row.kind);
    row.then = isAlarm(kind) && !row.isEarlier ? (row.read()?.value?.string ?? "") : "";
    // The first state of a PV is no news.
    if (row.kind !== "searched" && kind !== "searched" && rankOf(kind) < rankOf(row.kind)) {
      this.#worst =
        this.#worst === undefined || rankOf(kind) < rankOf(this.#worst) ? kind : this.#worst;
    }
    this.become(row, kind);
  }

  /** The worst state that a PV has got since the last call, also if it is over by now. */
  takeWorst(): Kind | undefined {
    const worst = this.#worst;
    this.#worst = undefined;
    return worst;
  }
}

const rankOf = (kind: Kind): number => KINDS.indexOf(kind);

/** Whether a state is of a PV whose values the page gets. */
const isSeen = (kind: Kind): boolean => kind !== "searched" && kind !== "gone";

const isAlarm = (kind: Kind): boolean => isSeen(kind) && kind !== "NO_ALARM";

/** When a state began: as the server or the relay says. */
function sinceOf(row: LiveRow, kind: Kind): number {
  const data = row.read();
  const lastHeard = data?.connection.lastHeard ?? data?.connection.since;
  if (kind === "gone" && lastHeard != null) return Date.parse(lastHeard);
  if (kind !== "gone" && data?.time != null && data.time.seconds > 0)
    return 1000 * data.time.seconds;
  return Date.now();
}

/** The list of the page; renders when a PV's state changes. */
export function usePvList(names: readonly string[]): PvList {
  const client = useClient();
  // By content: the same names in another link are the same list.
  const key = names.join("\n");
  const list = useMemo(() => new PvList(client, key === "" ? [] : key.split("\n")), [client, key]);
  useSyncExternalStore(list.subscribe, list.getSnapshot);
  return list;
}
