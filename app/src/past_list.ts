/** A list of PVs at a past moment: the values that held then, from what the relay and its archiver keep. */

import { useMemo, useSyncExternalStore } from "react";
import type { PvClient } from "pvwire";
import { useClient } from "pvwire/react";

import { FollowedList, type Row, type ValueData } from "./pv_list";
import { readPast } from "./snapshots/past";
import { readerOf, type FullData, type SavedPv } from "./snapshots/snapshot";

/** Questions to the relay that are on their way at a time. */
const AT_ONCE = 32;

interface PastRow extends Row {
  saved: SavedPv | undefined;
}

/** The list below, whose PVs must be followed by the page, too: units and choices are the present ones. */
export class PastList extends FollowedList<PastRow> {
  override readonly rows: readonly PastRow[];
  #client: PvClient;
  #atMs: number;
  #read: (name: string) => FullData | undefined;
  #end = new AbortController();
  #endConnection: () => void = () => undefined;

  constructor(client: PvClient, names: readonly string[], atMs: number) {
    super(names);
    this.#client = client;
    this.#atMs = atMs;
    this.#read = readerOf(client);
    this.rows = names.map((name, at) => {
      const row: PastRow = {
        name,
        at,
        kind: "searched",
        saved: undefined,
        read: () => row.saved && dataOf(row.saved, this.#read(name)),
      };
      return row;
    });
  }

  protected override start(): void {
    const { connection } = this.#client;
    const isOpen = (): boolean => connection.getSnapshot().state === "open";
    let wasOpen = isOpen();
    this.#endConnection = connection.subscribe(() => {
      // What the relay that was lost could not answer.
      if (!wasOpen && isOpen()) this.#readAgain();
      wasOpen = isOpen();
    });
    this.#readLeft();
  }

  protected override stop(): void {
    this.#endConnection();
    this.#end.abort();
  }

  #readAgain(): void {
    this.#end.abort();
    for (const row of this.rows) {
      if (row.saved === undefined || row.saved.value !== undefined) continue;
      row.saved = undefined;
      this.become(row, "searched");
    }
    this.#readLeft();
  }

  #readLeft(): void {
    this.#end = new AbortController();
    const { signal } = this.#end;
    const left = this.rows.filter(({ saved }) => saved === undefined).reverse();
    const work = async (): Promise<void> => {
      for (let row = left.pop(); row !== undefined; row = left.pop()) {
        const saved = await readPast(this.#client, row.name, this.#atMs, this.#read, signal);
        signal.throwIfAborted();
        row.saved = saved;
        const kind = saved.value === undefined ? "gone" : (saved.severity ?? "NO_ALARM");
        this.become(row, kind);
      }
    };
    for (let each = 0; each < AT_ONCE; each += 1) {
      // It ends early only by `signal`: the values are no longer wanted then.
      work().catch(() => undefined);
    }
  }
}

/** Maximum number of digits that JavaScript writes. */
const MAX_DIGITS = 100;

/** A number with the digits of its record, unless they would all be zeros. */
function digitsOf(number: number, precision: number): string {
  const digits = Math.min(precision, MAX_DIGITS);
  const isSmall = number !== 0 && Math.abs(number) < 10 ** -digits;
  return isSmall ? number.toExponential(digits) : number.toFixed(digits);
}

/** A past value as rows have it. */
export function dataOf(saved: SavedPv, now: FullData | undefined): ValueData {
  const { missing, nanoseconds, seconds, severity, value } = saved;
  const status = { severity, alarmStatus: null, message: "" };
  if (value === undefined) return { value: null, time: null, status, missing };
  const { choices, precision, units = "" } = now?.display ?? {};
  const number = typeof value === "number" ? value : null;
  const isPrecise = number !== null && choices == null && precision != null && precision > 0;
  const plain =
    number === null
      ? saved.text
      : isPrecise
        ? digitsOf(number, precision)
        : (choices?.[number] ?? String(number));
  return {
    value: { number, string: units === "" ? plain : `${plain} ${units}` },
    time: { seconds: seconds + nanoseconds / 1e9, nanoseconds },
    status,
    missing,
  };
}

const NEVER = (): (() => void) => () => undefined;
const NOTHING = (): number => 0;

/** The list at a moment in milliseconds past 1970; `undefined` for the present. */
export function usePastList(
  names: readonly string[],
  atMs: number | undefined,
): PastList | undefined {
  const client = useClient();
  // By content: the same names in another link are the same list.
  const key = names.join("\n");
  const list = useMemo(
    () =>
      atMs === undefined
        ? undefined
        : new PastList(client, key === "" ? [] : key.split("\n"), atMs),
    [client, key, atMs],
  );
  useSyncExternalStore(list?.subscribe ?? NEVER, list?.getSnapshot ?? NOTHING);
  return list;
}
