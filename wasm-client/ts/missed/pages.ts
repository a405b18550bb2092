/** Answers of the service `missed`: the updates of several PVs, and what of them is not there. */

import type { PvHistory, PvUpdates } from "../types.js";

/** Updates that a client has missed and can't have. */
export interface PvAbsent {
  /**
   * They are no longer kept (`evicted`); nothing is kept of the PV or of values of this kind, such as arrays
   * (`not kept`); the relay was too slow (`lost`); the server sent the update before again (`repeated`, nothing is
   * missing); no client had the PV (`not monitored`); the relay was restarted or is another one, and its past doesn't
   * reach back (`restarted`); this client may not read the PV any more (`not allowed`); or the relay can't tell (`not answered`).
   */
  readonly cause:
    | "evicted"
    | "not kept"
    | "lost"
    | "repeated"
    | "not monitored"
    | "restarted"
    | "not allowed"
    | "not answered";
  /** Number of updates; `undefined` if it is not known. */
  readonly count: number | undefined;
}

/**
 * Updates of a PV that the client has missed while it was cut off. All are older than the first update that came after
 * the reconnect.
 */
export interface PvMissed extends PvUpdates {
  /**
   * Changes when the PV has another type, or the relay has begun a new monitor. 0 of updates that the present relay may not
   * have counted: it is another one, or was restarted.
   */
  readonly epochs: Uint32Array;
  /** Numbers of the updates within their epoch, as `inspect` has them; 0 where the epoch is. */
  readonly sequences: Uint32Array;
  /** What else was missed. */
  readonly absent: readonly PvAbsent[];
}

/** An update, by its number among those of its PV. */
export interface Position {
  readonly epoch: number;
  readonly sequence: number;
}

/** Updates that were left out just before a row: by relay, source, filter and bus. */
export type LeftOut = readonly [relay: number, source: number, filter: number, bus: number];

/** The rows of a page. */
interface Rows {
  readonly times: BigInt64Array;
  readonly numbers: Float64Array;
  readonly severities: Uint8Array;
  readonly statuses: Uint16Array;
  readonly texts: ReadonlyMap<number, string>;
  readonly integers: ReadonlyMap<number, string>;
  readonly skips: ReadonlyMap<number, LeftOut>;
}

/** Rows of one PV that follow each other, from one of a page on. */
export interface Run {
  readonly rows: Rows;
  readonly begin: number;
  readonly epoch: number;
  readonly sequences: Uint32Array;
  /** Before these rows. */
  readonly leftOut: readonly LeftOut[];
}

/** What of an answer is older than the first update after a reconnect. */
export interface Kept {
  readonly runs: readonly Run[];
  /** Updates that were left out before that one. */
  readonly first: LeftOut;
  readonly absent: readonly PvAbsent[];
}

/** What a relay answers for one PV. */
export interface Answer {
  readonly runs: Run[];
  readonly absent: PvAbsent[];
  /** The last update that is considered; `undefined` if the answer is not complete. */
  end: Position | undefined;
  /** Why there is nothing else. */
  refused: string | undefined;
}

/** The JSON text of a page, as PROTOCOL.md describes it. */
interface Head {
  readonly runs?: readonly (readonly [pv: number, rows: number, epoch: number, first: number])[];
  readonly absent?: readonly (readonly [pv: number, PvAbsent["cause"], number | null])[];
  readonly ends?: readonly (readonly [pv: number, epoch: number, sequence: number])[];
  readonly refused?: readonly (readonly [pv: number, reason: string])[];
  readonly alarms?: readonly (readonly [row: number, severity: number, status: number])[];
  readonly skips?: readonly (readonly [row: number, ...LeftOut])[];
  readonly texts?: readonly (readonly [row: number, string])[];
  readonly integers?: readonly (readonly [row: number, string])[];
}

/** Bytes of the two lengths before the text. */
const LENGTHS = 8;

const NONE: LeftOut = [0, 0, 0, 0];

const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

/** By how many updates one is ahead of another one of its epoch. Numbers wrap around. */
export const ahead = (one: number, other: number): number => (one - other) | 0;

/** What these pages tell of `pvs` PVs. */
export function readPages(pages: readonly ArrayBuffer[], pvs: number): Answer[] {
  const all = Array.from({ length: pvs }, (): Answer => ({
    runs: [],
    absent: [],
    end: undefined,
    refused: undefined,
  }));
  for (const page of pages) read(page, all);
  return all;
}

function read(page: ArrayBuffer, all: readonly Answer[]): void {
  const lengths = new DataView(page);
  const [textLength, count] = [lengths.getUint32(0, true), lengths.getUint32(4, true)];
  const text = new Uint8Array(page, LENGTHS, textLength);
  const head = JSON.parse(new TextDecoder().decode(text)) as Head;
  const { absent = [], alarms = [], ends = [], refused = [], runs = [], skips = [] } = head;
  const at = LENGTHS + textLength;
  const severities = new Uint8Array(count);
  const statuses = new Uint16Array(count);
  for (const [row, severity, status] of alarms) {
    severities.fill(severity, row);
    statuses.fill(status, row);
  }
  const rows: Rows = {
    times: new BigInt64Array(page, at, count),
    numbers: new Float64Array(page, at + 8 * count, count),
    severities,
    statuses,
    texts: new Map(head.texts),
    integers: new Map(head.integers),
    skips: new Map(skips.map(([row, ...counts]) => [row, counts])),
  };
  let begin = 0;
  for (const [pv, length, epoch, first] of runs) {
    const sequences = new Uint32Array(length);
    let sequence = first;
    for (let row = 0; row < length; row += 1) {
      if (row > 0) sequence += 1 + total(rows.skips.get(begin + row) ?? NONE);
      sequences[row] = sequence;
    }
    all[pv]?.runs.push(run(rows, begin, epoch, sequences));
    begin += length;
  }
  for (const [pv, cause, updates] of absent) {
    all[pv]?.absent.push({ cause, count: updates ?? undefined });
  }
  for (const [pv, epoch, sequence] of ends) {
    const one = all[pv];
    if (one !== undefined) one.end = { epoch, sequence };
  }
  for (const [pv, reason] of refused) {
    const one = all[pv];
    if (one !== undefined) one.refused = reason;
  }
}

function run(rows: Rows, begin: number, epoch: number, sequences: Uint32Array): Run {
  const end = begin + sequences.length;
  const leftOut = [...rows.skips].filter(([row]) => row >= begin && row < end);
  return { rows, begin, epoch, sequences, leftOut: leftOut.map(([, counts]) => counts) };
}

/** What of an answer is older than this update. */
export function kept({ absent, end, runs }: Answer, first: Position): Kept {
  let firstLeftOut = NONE;
  // Of the updates from it on, those that the answer has or that no client got.
  let later = 0;
  const older = runs.map((one) => {
    if (one.epoch !== first.epoch) return one;
    const { begin, epoch, rows, sequences } = one;
    const begins = sequences.findIndex((sequence) => ahead(sequence, first.sequence) >= 0);
    const count = begins < 0 ? sequences.length : begins;
    for (let row = count; row < sequences.length; row += 1) {
      const leftOut = rows.skips.get(begin + row) ?? NONE;
      const isFirst = sequences[row] === first.sequence;
      if (isFirst) firstLeftOut = leftOut;
      later += 1 + (isFirst ? 0 : total(leftOut));
    }
    return run(rows, begin, epoch, sequences.subarray(0, count));
  });
  const isLater = end?.epoch === first.epoch;
  const all = isLater ? Math.max(0, ahead(end.sequence, first.sequence) + 1) : 0;
  // The others are absent, but not missing.
  let received = Math.max(0, all - later);
  const missing = absent.map(({ cause, count }) => {
    const got = cause === "not monitored" ? 0 : Math.min(received, count ?? 0);
    received -= got;
    return { cause, count: count === undefined ? undefined : count - got };
  });
  return {
    runs: older.filter(({ sequences }) => sequences.length > 0),
    first: firstLeftOut,
    absent: missing.filter(({ count }) => count !== 0),
  };
}

/**
 * Of a past, what is later than the update with this time stamp, and older than `first`; `undefined` if it doesn't reach that
 * one yet. Another relay has counted the former, so that only its time tells where it is.
 */
export function continued(past: PvHistory, afterNs: bigint, first: Position): PvMissed | undefined {
  const { epoch, gaps, keptSinceNs, name, numbers, sequence, skipped, texts, timeNs } = past;
  let number = sequence;
  if (number === undefined || epoch !== first.epoch || ahead(number, first.sequence) < 0) {
    return undefined;
  }
  let end = timeNs.length;
  for (; end > 0 && ahead(number, first.sequence) >= 0; end -= 1) {
    number -= 1 + (skipped.get(end - 1) ?? 0);
  }
  const same = timeNs.lastIndexOf(afterNs, end - 1);
  const later = timeNs.subarray(0, end).findIndex((ns) => ns > afterNs);
  const begin = Math.min(end, same >= 0 && end > 0 ? same + 1 : later < 0 ? end : later);
  const absent: PvAbsent[] = [];
  const add = (cause: PvAbsent["cause"]): void => {
    if (absent.every((each) => each.cause !== cause)) absent.push({ cause, count: undefined });
  };
  if (past.incomplete !== undefined) add("not answered");
  else if (keptSinceNs === undefined || keptSinceNs > afterNs) add("restarted");
  const untilNs = timeNs[end];
  for (const { cause, fromNs, toNs } of gaps) {
    if (toNs !== undefined && toNs <= afterNs) continue;
    if (untilNs !== undefined && fromNs >= untilNs) continue;
    if (cause === "lost" || cause === "not monitored") add(cause);
  }
  // A value that isn't kept is no number.
  if (Number.isNaN(numbers.at(-1)) && !texts.has(numbers.length - 1)) add("not kept");
  const inside = <Value>(values: ReadonlyMap<number, Value>): ReadonlyMap<number, Value> =>
    new Map(
      [...values]
        .filter(([row]) => row >= begin && row < end)
        .map(([row, value]) => [row - begin, value]),
    );
  return {
    name,
    epochs: new Uint32Array(end - begin),
    sequences: new Uint32Array(end - begin),
    timeNs: timeNs.slice(begin, end),
    numbers: numbers.slice(begin, end),
    severities: past.severities.slice(begin, end),
    statuses: past.statuses.slice(begin, end),
    texts: inside(texts),
    integers: inside(past.integers),
    skipped: inside(skipped),
    absent,
  };
}

/** The columns of these runs. */
export function joined(name: string, runs: readonly Run[]): Omit<PvMissed, "absent"> {
  const count = runs.reduce((sum, { sequences }) => sum + sequences.length, 0);
  const columns = {
    epochs: new Uint32Array(count),
    sequences: new Uint32Array(count),
    timeNs: new BigInt64Array(count),
    numbers: new Float64Array(count),
    severities: new Uint8Array(count),
    statuses: new Uint16Array(count),
  };
  const texts = new Map<number, string>();
  const integers = new Map<number, bigint>();
  const skipped = new Map<number, number>();
  let at = 0;
  for (const { begin, epoch, rows, sequences } of runs) {
    const end = begin + sequences.length;
    columns.epochs.fill(epoch, at, at + sequences.length);
    columns.sequences.set(sequences, at);
    columns.timeNs.set(rows.times.subarray(begin, end), at);
    columns.numbers.set(rows.numbers.subarray(begin, end), at);
    columns.severities.set(rows.severities.subarray(begin, end), at);
    columns.statuses.set(rows.statuses.subarray(begin, end), at);
    const place = (row: number): number => at + row - begin;
    const isInside = ([row]: readonly [number, unknown]): boolean => row >= begin && row < end;
    for (const [row, text] of [...rows.texts].filter(isInside)) texts.set(place(row), text);
    for (const [row, digits] of [...rows.integers].filter(isInside)) {
      integers.set(place(row), BigInt(digits));
    }
    for (const [row, counts] of [...rows.skips].filter(isInside)) {
      skipped.set(place(row), total(counts));
    }
    at += sequences.length;
  }
  return { name, ...columns, texts, integers, skipped };
}
