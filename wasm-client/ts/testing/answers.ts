/** Answers of the fake relay to questions: the past of a PV, and the service `names`. */

import type { NamesResult } from "../types.js";
import { nanoseconds, type PvState } from "./fake_pv.js";

/** Updates that a fake relay keeps of each PV. */
const MOST = 10_000;

/** Rows of a page. */
const PAGE_ROWS = 1000;

const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 };

interface Row {
  readonly timeNs: bigint;
  readonly value: unknown;
  readonly severity: number;
  readonly status: number;
}

interface Gap {
  readonly cause: "disconnected";
  readonly from_ns: string;
  to_ns: string | null;
}

/** Updates and gaps of one PV. */
export class FakePast {
  readonly #rows: Row[] = [];
  readonly #gaps: Gap[] = [];

  /** A new state, with an update if `isRow`. */
  add(pv: PvState, isRow: boolean, nowMs: number): void {
    const isGone = pv.state === "disconnected";
    const last = this.#gaps.at(-1);
    const now = String(nanoseconds(nowMs));
    if (isGone && last?.to_ns !== null) {
      this.#gaps.push({ cause: "disconnected", from_ns: now, to_ns: null });
    } else if (!isGone && last?.to_ns === null) {
      last.to_ns = now;
    }
    if (!isRow || !(pv.isNumber || typeof pv.fields.value === "string")) return;
    const timeNs = nanoseconds(pv.fields.timeMs ?? 0);
    this.#rows.push({
      timeNs,
      value: pv.fields.value,
      severity: pv.severity,
      status: pv.alarmStatus,
    });
    if (this.#rows.length > MOST) this.#rows.shift();
  }

  /** The contents of the pages of an answer. Nothing is thinned. */
  pages(
    pv: PvState,
    tick: bigint,
    fromNs: bigint | undefined,
    toNs: bigint | undefined,
  ): Uint8Array[] {
    const rows = this.#rows.filter(
      ({ timeNs }) =>
        (fromNs === undefined || timeNs > fromNs) && (toNs === undefined || timeNs <= toNs),
    );
    const before = this.#rows.filter(({ timeNs }) => fromNs !== undefined && timeNs <= fromNs);
    const initial = before.reduce<Row | undefined>(
      (latest, row) => (latest === undefined || row.timeNs >= latest.timeNs ? row : latest),
      undefined,
    );
    if (initial !== undefined) rows.unshift(initial);
    const gaps = this.#gaps.filter(
      (gap) =>
        (toNs === undefined || BigInt(gap.from_ns) <= toNs) &&
        (fromNs === undefined || gap.to_ns === null || BigInt(gap.to_ns) >= fromNs),
    );
    const first = this.#rows[0];
    const preface = {
      gaps,
      held: initial !== undefined,
      kept_since_ns: first === undefined ? null : String(first.timeNs),
      tick: String(tick),
      epoch: first === undefined ? null : pv.epoch,
      sequence: first === undefined ? null : pv.sequence,
    };
    const count = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
    return Array.from({ length: count }, (_, page) => {
      const own = rows.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS);
      const last = page === count - 1;
      return content(own, page === 0 ? { ...preface, last } : { last });
    });
  }
}

/** A page with these rows. */
function content(rows: readonly Row[], preface: object): Uint8Array {
  const head = {
    ...preface,
    alarms: rows.map(({ severity, status }, row) => [row, severity, status]),
    texts: rows.flatMap(({ value }, row) => (typeof value === "string" ? [[row, value]] : [])),
  };
  const json = new TextEncoder().encode(JSON.stringify(head));
  const length = Math.ceil(json.length / 8) * 8;
  const bytes = new Uint8Array(8 + length + 16 * rows.length).fill(0x20, 8, 8 + length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length, true);
  view.setUint32(4, rows.length, true);
  bytes.set(json, 8);
  rows.forEach(({ timeNs, value }, row) => {
    const at = 8 + length + 8 * row;
    view.setBigInt64(at, timeNs, true);
    const number = typeof value === "string" ? NaN : Number(value);
    view.setFloat64(at + 8 * rows.length, number, true);
  });
  return bytes;
}

/** Reads a moment as a relay does; throws if it isn't one. */
export function momentNs(moment: string | null | undefined, nowMs: number): bigint | undefined {
  if (moment == null) return undefined;
  if (moment === "now") return nanoseconds(nowMs);
  if (/^\d{18,19}$/.test(moment)) return BigInt(moment);
  const before = /^-(\d+)([dhms])$/.exec(moment);
  if (before !== null)
    return nanoseconds(nowMs - Number(before[1]) * (UNITS[before[2] ?? ""] ?? 0));
  const ms = Date.parse(moment);
  if (Number.isNaN(ms)) throw new Error(`${JSON.stringify(moment)}: expected ISO 8601 with a zone`);
  return nanoseconds(ms);
}

interface Question {
  readonly text: string;
  readonly limit?: number;
  /** The `next` of an earlier answer. */
  readonly after?: string;
}

/** Order of a name among those that were found. */
type Rank = readonly [isInside: number, length: number, lower: string, name: string];

function compare(one: Rank, other: Rank): number {
  for (const [at, part] of one.entries()) {
    const against = other[at] as typeof part;
    if (part !== against) return part < against ? -1 : 1;
  }
  return 0;
}

/** The answer to a question: as the relay's, of PVs of Channel Access. */
export function foundNames(names: readonly string[], question: string): NamesResult {
  const { after, limit = 20, text } = JSON.parse(question) as Question;
  const wanted = text.trim().toLowerCase();
  const isPattern = /[*?]/.test(wanted);
  const escaped = wanted.replace(/[\\^$.|+()[\]{}/]/g, "\\$&");
  const pattern = new RegExp(`^${escaped.replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "su");
  const rank = (name: string): Rank => {
    const lower = name.toLowerCase();
    const isField = /\.[A-Z][A-Z0-9]*\$?$/.test(name);
    const begins = isPattern || lower.startsWith(wanted);
    return [(begins ? 0 : 2) + (isField ? 1 : 0), lower.length, lower, name];
  };
  const from = after === undefined ? undefined : rank(after.replace(/^ca:\/\//, ""));
  const found = names
    .map(rank)
    .filter(([, , lower]) => (isPattern ? pattern.test(lower) : lower.includes(wanted)))
    .filter((each) => from === undefined || compare(each, from) > 0)
    .sort(compare)
    .map(([, , , name]) => name);
  const given = found.slice(0, limit);
  const last = given.at(-1);
  return {
    names: given.map((name) => ({ name, protocol: "ca", from: ["relay"] })),
    ...(found.length > limit && last !== undefined ? { next: `ca://${last}` } : {}),
  };
}
