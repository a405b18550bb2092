/** Joins what the relay keeps of a PV with what its archiver has. Loaded with the first PV that an archiver has. */

import { Answer, initSync, type InitOutput } from "../../pkg/pvwire_archive.js";
import type { Loader } from "../store/loader.js";
import type {
  PvHistory,
  PvHistoryBin,
  PvHistoryGap,
  PvHistoryOptions,
  WasmSource,
} from "../types.js";

let loader: Loader<InitOutput> | undefined;

/** A bin of an archiver becomes at most three rows, and the relay's own bins have four. */
const ROWS_OF_BIN = 4;

/** From when to when samples are wanted, in nanoseconds past 1970. */
export interface Range {
  readonly fromNs: bigint;
  readonly toNs: bigint;
}

/** A part of the range that the relay has not kept. */
interface Missing extends Range {
  /** Its rows go before this row of what the relay keeps. */
  readonly row: number;
  /** Rows are wanted between these times, exclusively. */
  readonly afterNs: bigint;
  readonly beforeNs: bigint;
  /** The gap that it fills; `undefined` for the time before the first row. */
  readonly gap: PvHistoryGap | undefined;
}

/** Rows of an archiver. */
export type Archived = Pick<
  PvHistory,
  "timeNs" | "numbers" | "severities" | "statuses" | "texts" | "gaps" | "bins" | "hasHeld"
>;

/** Sends a question to the service `archiver` and resolves with the pages of the answer. */
export type AskArchiver = (question: string) => Promise<readonly ArrayBuffer[]>;

interface ArchiveOptions {
  /** Passed in, so that this file is loaded alone. */
  readonly Loader: typeof Loader;
  readonly wasm: WasmSource | Promise<WasmSource> | undefined;
  readonly range: Range;
  readonly options: Pick<PvHistoryOptions, "points" | "signal" | "onPartial">;
  readonly ask: AskArchiver;
}

const EVER = 1n << 62n;

const later = (one: bigint, other: bigint): bigint => (one > other ? one : other);
const earlier = (one: bigint, other: bigint): bigint => (one < other ? one : other);

/** The parts of a range that the relay has not kept: before its first row, and while it had no monitor. */
export function missing(kept: PvHistory, { fromNs, toNs }: Range): readonly Missing[] {
  const { gaps, hasHeld, timeNs } = kept;
  const parts: Missing[] = [];
  // A record that was never processed has the time 0.
  const first = timeNs.findIndex((ns) => ns > 0n);
  const begin = first < 0 ? toNs + 1n : (timeNs[first] ?? toNs);
  if (begin > fromNs && !(hasHeld && first === 0)) {
    const row = Math.max(first, 0);
    const to = earlier(begin, toNs);
    parts.push({ fromNs, toNs: to, row, afterNs: -EVER, beforeNs: begin, gap: undefined });
  }
  for (const gap of gaps) {
    if (gap.cause === "disconnected") continue;
    const found = timeNs.findIndex((ns) => ns > gap.fromNs);
    const row = found < 0 ? timeNs.length : found;
    if (row <= first || first < 0) continue;
    const [before, next] = [timeNs[row - 1] ?? -EVER, timeNs[row] ?? EVER];
    parts.push({
      fromNs: later(gap.fromNs, fromNs),
      toNs: earlier(gap.toNs ?? toNs, toNs),
      row,
      afterNs: later(before, gap.fromNs - 1n),
      beforeNs: next,
      gap,
    });
  }
  return parts.filter(({ fromNs: from, toNs: to }) => from <= to);
}

/**
 * What the relay keeps, with the archiver's samples in the times that are missing. A PV that the archiver doesn't
 * have changes nothing; a failure leaves what the relay keeps, and says why.
 */
export async function withArchive(
  kept: PvHistory,
  { ask, Loader, options, range, wasm }: ArchiveOptions,
): Promise<PvHistory> {
  const parts = missing(kept, range);
  if (parts.length === 0) return kept;
  const { onPartial, points, signal } = options;
  onPartial?.(kept);
  const part: Range = {
    fromNs: parts.map(({ fromNs }) => fromNs).reduce(earlier),
    toNs: parts.map(({ toNs }) => toNs).reduce(later),
  };
  try {
    loader ??= new Loader<InitOutput>(
      initSync,
      () => new URL("../../pkg/pvwire_archive_bg.wasm", import.meta.url),
    );
    await loader.load(wasm);
    const share = Number(part.toNs - part.fromNs) / Math.max(1, Number(range.toNs - range.fromNs));
    const bins = points === undefined ? 0 : Math.max(1, Math.ceil((points / ROWS_OF_BIN) * share));
    return filled(kept, parts, await fetched(kept.name, part, bins, ask));
  } catch (error) {
    const { code } = error as { readonly code?: string };
    // The past of another connection is requested again.
    if (signal?.aborted === true || code === "RELAY_LOST" || code === "CLOSED") throw error;
    return code === "BAD_NAME"
      ? kept
      : { ...kept, archiveError: error as PvHistory["archiveError"] };
  }
}

/** The archiver's rows. It has statistics of numbers only: of other PVs it is asked for every sample. */
async function fetched(
  name: string,
  range: Range,
  bins: number,
  ask: AskArchiver,
): Promise<Archived> {
  const [from, to] = [String(range.fromNs), String(range.toNs)];
  const question = { pv: name, from, to };
  if (bins > 0) {
    try {
      const pages = await ask(JSON.stringify({ ...question, points: bins }));
      const archived = decoded(pages, range, true);
      if (archived.timeNs.length > 0) return archived;
    } catch (error) {
      if ((error as { readonly code?: string }).code !== "FAILED") throw error;
    }
  }
  return decoded(await ask(JSON.stringify(question)), range, false);
}

/** The rows of an answer. Only when the module is loaded. */
export function decoded(
  pages: readonly ArrayBuffer[],
  { fromNs, toNs }: Range,
  areBins: boolean,
): Archived {
  const answer = new Answer(fromNs, toNs, areBins);
  try {
    for (const page of pages) answer.push(new Uint8Array(page));
    if (!answer.finish()) {
      const why = "the archiver's answer ends within a sample: its operator reads its log";
      throw Object.assign(new Error(why), { code: "FAILED" });
    }
    const damaged = answer.damaged();
    if (damaged > 0) {
      console.warn(`pvwire: ${String(damaged)} damaged samples of the archiver are left out`);
    }
    const [rows, texts] = [answer.text_rows(), answer.texts()];
    return {
      timeNs: answer.times(),
      numbers: answer.numbers(),
      severities: answer.severities(),
      statuses: answer.statuses(),
      texts: new Map(texts.map((text, at) => [rows[at] ?? 0, text])),
      gaps: gapsOf(answer.gaps()),
      bins: binsOf(answer.bins()),
      hasHeld: answer.has_held(),
    };
  } finally {
    answer.free();
  }
}

function gapsOf(flat: BigInt64Array): PvHistoryGap[] {
  const gaps: PvHistoryGap[] = [];
  for (let at = 0; at < flat.length; at += 3) {
    const [isDisconnected, fromNs = 0n, toNs = 0n] = flat.subarray(at, at + 3);
    const cause = isDisconnected === 1n ? "disconnected" : "not archived";
    gaps.push({ cause, fromNs, toNs: toNs < fromNs ? undefined : toNs });
  }
  return gaps;
}

function binsOf(flat: Uint32Array): PvHistoryBin[] {
  const bins: PvHistoryBin[] = [];
  for (let at = 0; at < flat.length; at += 2) {
    const [rows = 0, updates = 0] = flat.subarray(at, at + 2);
    bins.push({ rows, updates, severity: 0, status: 0, skipped: 0 });
  }
  return bins;
}

/** Collects the columns of a joined past. */
class Joined {
  #timeNs: BigInt64Array[] = [];
  #numbers: Float64Array[] = [];
  #severities: Uint8Array[] = [];
  #statuses: Uint16Array[] = [];
  readonly texts = new Map<number, string>();
  readonly integers = new Map<number, bigint>();
  readonly skipped = new Map<number, number>();
  readonly bins: PvHistoryBin[] = [];
  #rows = 0;

  /** Adds rows `begin` to `end`. */
  add(
    from: Archived & Partial<Pick<PvHistory, "integers" | "skipped">>,
    begin: number,
    end: number,
  ): void {
    if (begin >= end) return;
    this.#timeNs.push(from.timeNs.subarray(begin, end));
    this.#numbers.push(from.numbers.subarray(begin, end));
    this.#severities.push(from.severities.subarray(begin, end));
    this.#statuses.push(from.statuses.subarray(begin, end));
    const move = <T>(rows: ReadonlyMap<number, T> | undefined, to: Map<number, T>): void => {
      rows?.forEach((value, row) => {
        if (row >= begin && row < end) to.set(this.#rows + row - begin, value);
      });
    };
    move(from.texts, this.texts);
    move(from.integers, this.integers);
    move(from.skipped, this.skipped);
    this.#addBins(from, begin, end);
    this.#rows += end - begin;
  }

  /** A bin of which only some rows are added counts its updates with its last ones. */
  #addBins({ bins, severities, statuses }: Archived, begin: number, end: number): void {
    let first = 0;
    for (const bin of bins) {
      const last = first + bin.rows;
      const [from, to] = [Math.max(first, begin), Math.min(last, end)];
      if (from < to) {
        const updates = last <= end ? bin.updates - Math.max(0, begin - first) : to - from;
        this.bins.push({ ...bin, rows: to - from, updates: Math.max(updates, 0) });
      }
      first = last;
    }
    if (bins.length > 0) return;
    for (let row = begin; row < end; row += 1) {
      const [severity = 0, status = 0] = [severities[row], statuses[row]];
      this.bins.push({ rows: 1, updates: 1, severity, status, skipped: 0 });
    }
  }

  columns(): Pick<PvHistory, "timeNs" | "numbers" | "severities" | "statuses"> {
    const timeNs = new BigInt64Array(this.#rows);
    const numbers = new Float64Array(this.#rows);
    const severities = new Uint8Array(this.#rows);
    const statuses = new Uint16Array(this.#rows);
    let at = 0;
    this.#timeNs.forEach((times, part) => {
      timeNs.set(times, at);
      numbers.set(this.#numbers[part] ?? [], at);
      severities.set(this.#severities[part] ?? [], at);
      statuses.set(this.#statuses[part] ?? [], at);
      at += times.length;
    });
    return { timeNs, numbers, severities, statuses };
  }
}

/** What the relay keeps, with the archived rows of the missing parts. */
export function filled(kept: PvHistory, parts: readonly Missing[], archived: Archived): PvHistory {
  const joined = new Joined();
  const [begun] = archived.timeNs;
  let gaps = [...kept.gaps];
  let row = 0;
  let hasHeld = kept.hasHeld;
  /** Archived rows that are joined: two gaps may have the same rows of the relay around them. */
  let taken = 0;
  for (const part of parts) {
    const begin = archived.timeNs.findIndex((ns) => ns > part.afterNs);
    const after = archived.timeNs.findIndex((ns) => ns >= part.beforeNs);
    const end = after < 0 ? archived.timeNs.length : after;
    // A row of the relay without a time stamp stays where it is.
    joined.add(kept, row, part.row);
    row = part.row;
    if (begin >= 0 && Math.max(begin, taken) < end) {
      joined.add(archived, Math.max(begin, taken), end);
      taken = end;
    }
    if (part.gap === undefined) {
      if (begin === 0 && end > 0) ({ hasHeld } = archived);
      gaps = gaps.filter(
        ({ cause, fromNs, toNs = EVER }) =>
          cause === "disconnected" || toNs > part.beforeNs || (begun ?? EVER) > fromNs,
      );
    } else if (begun !== undefined) {
      gaps = gaps.filter((gap) => gap !== part.gap);
      // The archiver may have begun later than the gap.
      if (begun > part.gap.fromNs) gaps.push({ ...part.gap, toNs: begun });
    }
    for (const gap of archived.gaps) {
      const fromNs = later(gap.fromNs, part.gap?.fromNs ?? part.fromNs);
      const toNs = earlier(gap.toNs ?? part.beforeNs, part.beforeNs);
      if (fromNs < toNs) gaps.push({ ...gap, fromNs, toNs: toNs === EVER ? undefined : toNs });
    }
  }
  joined.add(kept, row, kept.timeNs.length);
  gaps.sort((one, other) => (one.fromNs < other.fromNs ? -1 : 1));
  const isThinned = kept.bins.length + archived.bins.length > 0;
  const { integers, skipped, texts } = joined;
  return {
    ...kept,
    ...joined.columns(),
    texts,
    integers,
    skipped,
    gaps,
    bins: isThinned ? joined.bins : [],
    hasHeld,
  };
}
