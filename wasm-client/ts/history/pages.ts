/** Questions to the service `history`, and the columns in its answers. Loaded with the first question. */

import type { PvHistory, PvHistoryBin, PvHistoryGap, PvHistoryOptions } from "../types.js";
import type { Range } from "./archive.js";
import { momentText } from "./moment.js";

type Row = number;

/** The JSON text of a page, as PROTOCOL.md describes it. */
interface Columns {
  readonly alarms?: readonly (readonly [Row, severity: number, status: number])[];
  readonly skips?: readonly (readonly [Row, number, number, number, number])[];
  readonly texts?: readonly (readonly [Row, string])[];
  readonly integers?: readonly (readonly [Row, string])[];
  readonly bins?: readonly (readonly [
    rows: number,
    updates: number,
    severity: number,
    status: number,
    skipped: number,
  ])[];
  readonly gaps?: readonly {
    readonly cause: PvHistoryGap["cause"];
    readonly from_ns: string;
    readonly to_ns: string | null;
  }[];
  readonly kept_since_ns?: string | null;
  readonly tick?: string;
  readonly epoch?: number | null;
  readonly sequence?: number | null;
  /** An archiver may have the PV: from when to when samples are wanted. */
  readonly archived?: { readonly from_ns: string; readonly to_ns: string };
  readonly incomplete?: string;
}

type Head = Columns & Partial<Record<"held", boolean>>;

/** Bytes of the two lengths before the text. */
const LENGTHS = 8;

const bigOrNot = (digits: string | null | undefined): bigint | undefined =>
  digits == null ? undefined : BigInt(digits);

/** The question for the past of a PV. */
export function question(name: string, { from, points, to }: PvHistoryOptions): string {
  return JSON.stringify({ pv: name, from: momentText(from), to: momentText(to), points });
}

/**
 * The answer that these pages are, and from when to when an archiver may have samples as well; `undefined` if it has
 * none.
 */
export function joined(
  name: string,
  pages: readonly ArrayBuffer[],
): { readonly kept: PvHistory; readonly archived: Range | undefined } {
  const answer = new Pages(name);
  for (const page of pages) answer.add(page);
  return { kept: answer.joined(), archived: answer.archived };
}

/** Takes the pages of one answer. */
class Pages {
  #name: string;
  #times: BigInt64Array[] = [];
  #numbers: Float64Array[] = [];
  #severities: number[] = [];
  #statuses: number[] = [];
  #texts = new Map<number, string>();
  #integers = new Map<number, bigint>();
  #skipped = new Map<number, number>();
  #gaps: PvHistoryGap[] = [];
  #bins: PvHistoryBin[] = [];
  #first: Head | undefined;
  #rows = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** Adds the next page. */
  add(bytes: ArrayBuffer): void {
    const lengths = new DataView(bytes);
    const [textLength, rows] = [lengths.getUint32(0, true), lengths.getUint32(4, true)];
    const text = new Uint8Array(bytes, LENGTHS, textLength);
    const head = JSON.parse(new TextDecoder().decode(text)) as Head;
    this.#first ??= head;
    const at = LENGTHS + textLength;
    this.#times.push(new BigInt64Array(bytes, at, rows));
    this.#numbers.push(new Float64Array(bytes, at + 8 * rows, rows));
    const { alarms = [], bins = [], gaps = [], integers = [], skips = [], texts = [] } = head;
    const before = this.#rows;
    alarms.forEach(([row, severity, status], index) => {
      const end = alarms[index + 1]?.[0] ?? rows;
      for (let each = row; each < end; each += 1) {
        this.#severities.push(severity);
        this.#statuses.push(status);
      }
    });
    for (const [row, ...causes] of skips) {
      const skipped = causes.reduce((sum, count) => sum + count);
      this.#skipped.set(before + row, skipped);
    }
    for (const [row, value] of texts) this.#texts.set(before + row, value);
    for (const [row, digits] of integers) this.#integers.set(before + row, BigInt(digits));
    for (const { cause, from_ns: from, to_ns: to } of gaps) {
      this.#gaps.push({ cause, fromNs: BigInt(from), toNs: bigOrNot(to) });
    }
    for (const [inBin, updates, severity, status, skipped] of bins) {
      this.#bins.push({ rows: inBin, updates, severity, status, skipped });
    }
    this.#rows += rows;
  }

  get archived(): Range | undefined {
    const { from_ns: from, to_ns: to } = this.#first?.archived ?? {};
    if (from === undefined || to === undefined) return undefined;
    return { fromNs: BigInt(from), toNs: BigInt(to) };
  }

  /** The answer, when all pages were added. */
  joined(): PvHistory {
    const { epoch, incomplete, kept_since_ns: since, sequence, tick = "0" } = this.#first ?? {};
    const timeNs = new BigInt64Array(this.#rows);
    const numbers = new Float64Array(this.#rows);
    let at = 0;
    this.#times.forEach((times, page) => {
      timeNs.set(times, at);
      numbers.set(this.#numbers[page] ?? [], at);
      at += times.length;
    });
    return {
      name: this.#name,
      timeNs,
      numbers,
      texts: this.#texts,
      integers: this.#integers,
      severities: Uint8Array.from(this.#severities),
      statuses: Uint16Array.from(this.#statuses),
      skipped: this.#skipped,
      gaps: this.#gaps,
      bins: this.#bins,
      hasHeld: this.#first?.held ?? false,
      keptSinceNs: bigOrNot(since),
      tick: BigInt(tick),
      epoch: epoch ?? undefined,
      sequence: sequence ?? undefined,
      incomplete,
      archiveError: undefined,
    };
  }
}
