/** The past of a PV with its live updates, for `usePvHistory`. Loaded with the first of them. */

import type {
  LivePvHistory,
  Pv,
  PvClient,
  PvConnection,
  PvHistory,
  PvHistoryGap,
  PvHistoryOptions,
  PvSkips,
  PvStatus,
  PvTime,
  PvValue,
} from "../types.js";
import { folded } from "./fold.js";
import { MISSED_FIELDS, PastLoader, missedOf, type Answer } from "./loader.js";
import { timeOf } from "./moment.js";
import { Seam } from "./seam.js";

const SELECTION = `{
  value { number }
  time { seconds nanoseconds }
  status { severity }
  connection { state connected unresponsive readable }
  ${MISSED_FIELDS}
}`;

interface TailData {
  readonly value: Pick<PvValue, "number"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly status: Pick<PvStatus, "severity"> | null;
  readonly connection: Pick<PvConnection, "state" | "connected" | "unresponsive" | "readable">;
  readonly skips: Pick<PvSkips, "behind" | "paced">;
}

/** Most updates of one PV; of older ones, extremes remain. */
const MAX_ROWS = 20_000;

/** A time stamp that is further ahead than the one before, by more than this, may be an error of its IOC. */
const LARGEST_JUMP_NS = 60_000_000_000n;

const SEVERITIES: readonly string[] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

interface LiveRow {
  readonly sequence: number | undefined;
  readonly timeNs: bigint;
  readonly number: number;
  readonly severity: number;
}

/** Units of a moment that is relative to now, such as `-10m`, in nanoseconds. */
const UNITS: Readonly<Record<string, bigint>> = {
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
};

/** Length of the past that is shown, if its begin moves. */
function lengthOf(from: PvHistoryOptions["from"]): bigint | undefined {
  const [, count = "", unit = ""] = /^-(\d+)([smhd])$/.exec(String(from)) ?? [];
  const unitNs = UNITS[unit];
  return unitNs === undefined ? undefined : BigInt(count) * unitNs;
}

/** Index of the part of time between the begins and ends of gaps. */
function partsOf(gaps: readonly PvHistoryGap[]): (row: LiveRow) => number {
  const marks = BigInt64Array.from(
    gaps.flatMap(({ fromNs, toNs }) => (toNs === undefined ? [fromNs] : [fromNs, toNs])),
  ).sort();
  return ({ timeNs }) => {
    let [low, high] = [0, marks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((marks[middle] ?? 0n) <= timeNs) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}

type Rows = Pick<LivePvHistory, "timeNs" | "numbers" | "severities">;

/** Rows and gaps that no later answer changes, but one for the time after them. */
type Known = Rows & Pick<LivePvHistory, "gaps">;

const NOTHING: Known = {
  timeNs: new BigInt64Array(),
  numbers: new Float64Array(),
  severities: new Uint8Array(),
  gaps: [],
};

function rowsOf({ numbers, severities, timeNs }: Rows): LiveRow[] {
  return Array.from(timeNs, (ns, row): LiveRow => {
    const [number = NaN, severity = 0] = [numbers[row], severities[row]];
    return { sequence: undefined, timeNs: ns, number, severity };
  });
}

/** The rows of an answer from `row` on that have a time, with others among them. */
function withArrivals(answer: Rows, row: number, arrivals: readonly LiveRow[]): Rows {
  const [numbers, severities] = [answer.numbers.subarray(row), answer.severities.subarray(row)];
  const rest = { timeNs: answer.timeNs.subarray(row), numbers, severities };
  if (arrivals.length === 0 && rest.timeNs.every((ns) => ns > 0n)) return rest;
  const later = [...arrivals];
  const all: LiveRow[] = [];
  for (const stamped of rowsOf(rest)) {
    if (stamped.timeNs <= 0n) continue;
    while ((later[0]?.timeNs ?? stamped.timeNs) < stamped.timeNs) all.push(...later.splice(0, 1));
    all.push(stamped);
  }
  return chained(NOTHING, 0, [...all, ...later], NOTHING, 0, []);
}

/** The past without samples that live updates have, if the relay keeps none. */
function beforeLive(past: PvHistory, [first]: readonly LiveRow[]): PvHistory {
  if (past.sequence !== undefined || first === undefined) return past;
  const end = past.timeNs.findIndex((ns) => ns >= first.timeNs);
  return end < 0 ? past : { ...past, timeNs: past.timeNs.subarray(0, end) };
}

/** Rows up to `end`, then live ones, then the rows of an answer from `row` on, with these gaps. */
function chained(
  known: Known,
  end: number,
  live: readonly LiveRow[],
  answer: Rows,
  row: number,
  gaps: readonly PvHistoryGap[],
): Known {
  const rows = Math.max(0, answer.timeNs.length - row);
  const timeNs = new BigInt64Array(end + live.length + rows);
  const numbers = new Float64Array(timeNs.length);
  const severities = new Uint8Array(timeNs.length);
  timeNs.set(known.timeNs.subarray(0, end));
  numbers.set(known.numbers.subarray(0, end));
  severities.set(known.severities.subarray(0, end));
  live.forEach((each, at) => {
    timeNs[end + at] = each.timeNs;
    numbers[end + at] = each.number;
    severities[end + at] = each.severity;
  });
  const begin = end + live.length;
  timeNs.set(answer.timeNs.subarray(row, row + rows), begin);
  numbers.set(answer.numbers.subarray(row, row + rows), begin);
  severities.set(answer.severities.subarray(row, row + rows), begin);
  return { timeNs, numbers, severities, gaps };
}

const overlap = (one: PvHistoryGap, other: PvHistoryGap): boolean =>
  (one.toNs === undefined || one.toNs >= other.fromNs) &&
  (other.toNs === undefined || other.toNs >= one.fromNs);

/** Follows one PV until `end` is called. */
export class Tail {
  /** What comes before the updates that are missing. */
  #base: Known = NOTHING;
  /** The same, with what the relay has answered. */
  #past: Known = NOTHING;
  /** Updates after those. */
  #live: LiveRow[] = [];
  #gaps: PvHistoryGap[] = [];
  /** Gaps of the last answer for which the relay keeps too little; an archiver may fill them. */
  #missed: ReadonlySet<PvHistoryGap> = new Set();
  /** A gap that was open when the relay answered that the PV has none. */
  #doubtful: { readonly fromNs: bigint; isWhole: boolean; isContinued: boolean } | undefined;
  /** Time stamp of the newest update that was seen. */
  #newestNs = 0n;
  /** How far the last time stamp was ahead of this machine's clock. */
  #aheadNs = 0n;
  /** How far the last gap is ahead of this machine's clock. */
  #leadNs = 0n;
  /** Times of rows whose updates have no time stamp: when they arrived, which no answer says. */
  #arrivals = new Set<bigint>();
  #seam = new Seam();
  #loader: PastLoader;
  #pv: Pv<TailData> | undefined;
  #last: TailData | undefined;
  #state: Pick<LivePvHistory, "name" | "isLoading" | "error">;
  /** All of it in one, when it is read: updates may come faster. */
  #shown: LivePvHistory | undefined;
  #lengthNs: bigint | undefined;
  #ended = new AbortController();
  #onChange: () => void;

  /** With `to`, only the past is shown. */
  constructor(client: PvClient, name: string, range: PvHistoryOptions, onChange: () => void) {
    this.#state = { name, isLoading: true, error: undefined };
    this.#onChange = onChange;
    this.#lengthNs = lengthOf(range.from);
    const { signal } = this.#ended;
    const isLive = range.to === undefined;
    this.#loader = new PastLoader({
      client,
      name,
      signal,
      isOnce: !isLive,
      range: (missingNs) => (missingNs === undefined ? range : { ...range, from: missingNs }),
      onMissing: this.#keep,
      onPast: this.#join,
      onFailed: (error) => {
        // Errors of questions have codes.
        this.#show({ error: error as LivePvHistory["error"], isLoading: false });
      },
    });
    this.#pv = client.pv<TailData>(name, isLive ? SELECTION : "{ connection { state } }");
    const take = isLive ? this.#take : this.#ask;
    const stop = this.#pv.subscribe(take);
    signal.addEventListener("abort", stop);
    take();
  }

  get shown(): LivePvHistory {
    this.#shown ??= {
      ...this.#state,
      ...chained(this.#past, this.#past.timeNs.length, this.#live, NOTHING, 0, [
        ...this.#past.gaps,
        ...this.#gaps,
      ]),
    };
    return this.#shown;
  }

  end(): void {
    this.#ended.abort();
  }

  /** The relay knows the PV. */
  readonly #ask = (): void => {
    const state = this.#pv?.getSnapshot()?.connection.state ?? "connecting";
    if (state === "connecting") this.#loader.waits();
    else this.#loader.seen(undefined);
  };

  readonly #take = (): void => {
    const data = this.#pv?.getSnapshot();
    const before = this.#last;
    this.#last = data;
    if (data === undefined || data.connection.state === "connecting") {
      this.#loader.waits();
      return;
    }
    const { connection, skips, status, time, value } = data;
    const gap = this.#gaps.at(-1);
    const isInGap = gap !== undefined && gap.toNs === undefined;
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    if (
      !connection.connected ||
      !connection.readable ||
      connection.unresponsive ||
      value === null
    ) {
      this.#loader.seen(undefined);
      this.#seam.cut();
      if (isInGap) return;
      // Where the IOC's clock is ahead, the gap is after the last update by that clock.
      const fromNs = this.#newestNs < nowNs ? nowNs : this.#newestNs + 1000n;
      this.#leadNs = fromNs - nowNs;
      this.#gaps.push({ cause: "disconnected", fromNs, toNs: undefined });
      this.#show({});
      return;
    }
    if (isInGap) {
      const toNs = nowNs + this.#leadNs;
      this.#gaps[this.#gaps.length - 1] = { ...gap, toNs: toNs > gap.fromNs ? toNs : gap.fromNs };
    }
    if (before?.value === value && before.time === time && !isInGap) return;
    const number = value.number ?? NaN;
    const timeNs = time === null ? undefined : timeOf(time);
    const row: LiveRow = {
      sequence: this.#loader.seen({ timeNs, number, missed: missedOf(skips) }),
      // No clock of whole microseconds has this time.
      timeNs: timeNs ?? nowNs + 1n,
      number,
      severity: Math.max(0, SEVERITIES.indexOf(status?.severity ?? "")),
    };
    if (timeNs === undefined) this.#arrivals.add(row.timeNs);
    this.#compare(row.timeNs, nowNs);
    if (isInGap && this.#doubtful?.fromNs === gap.fromNs) {
      this.#doubtful.isContinued = this.#seam.continues(row.sequence);
      this.#dropDoubtful();
    }
    // After a gap the last update may come again.
    const isKnown = this.#seam.has(row.sequence) || (isInGap && this.#isShown(row));
    if (timeNs === undefined || !isKnown) {
      this.#live.push(row);
    } else if (!isInGap) return;
    this.#show({});
  };

  /** The past has what was missed in a gap, up to the first update after it. */
  #dropDoubtful(): void {
    const { fromNs, isContinued, isWhole } = this.#doubtful ?? {};
    if (isWhole !== true || isContinued !== true) return;
    this.#gaps = this.#gaps.filter((gap) => gap.fromNs !== fromNs);
  }

  /** Notes the newest time stamp, unless it may be an error: a clock that is ahead stays ahead. */
  #compare(timeNs: bigint, nowNs: bigint): void {
    const aheadNs = timeNs - nowNs;
    if (aheadNs - this.#aheadNs < LARGEST_JUMP_NS) this.#newestNs = timeNs;
    this.#aheadNs = aheadNs > 0n ? aheadNs : 0n;
  }

  /** Whether a row is the last one that is shown. */
  #isShown({ number, severity, timeNs }: LiveRow): boolean {
    const { numbers, severities, timeNs: times } = this.shown;
    const isSame = times.at(-1) === timeNs && severities.at(-1) === severity;
    return isSame && Object.is(numbers.at(-1), number);
  }

  /** Updates are missing after what is shown. */
  readonly #keep = (): void => {
    const { numbers, severities, timeNs } = this.shown;
    const isOpen = ({ toNs }: PvHistoryGap): boolean => toNs === undefined;
    const closed = this.#gaps.filter((gap) => !isOpen(gap));
    this.#base = { timeNs, numbers, severities, gaps: [...this.#past.gaps, ...closed] };
    this.#past = this.#base;
    this.#live = [];
    this.#gaps = this.#gaps.filter(isOpen);
  };

  readonly #join = (answer: Answer): void => {
    const { kept, past } = answer;
    const error = past.archiveError;
    if (kept !== undefined) {
      const isKept = (gap: PvHistoryGap): boolean => kept.gaps.includes(gap);
      // A gap that has ended meanwhile is among those of what the relay keeps.
      const isFilled = (gap: PvHistoryGap): boolean => answer.isWhole && this.#missed.has(gap);
      const closed = this.#past.gaps.filter((gap) => !isKept(gap) && !isFilled(gap));
      if (this.#doubtful !== undefined && answer.isWhole) {
        this.#doubtful.isWhole = true;
        this.#dropDoubtful();
      }
      const isLive = this.#last !== undefined;
      const ended = past.gaps.filter(({ toNs }) => !isLive || toNs !== undefined);
      this.#fill(answer, beforeLive(past, this.#live), [], [...ended, ...closed]);
      this.#show({ isLoading: false, error });
      return;
    }
    const numbers = this.#live.map(({ sequence }) => sequence);
    const replaced = this.#live.splice(0, this.#seam.join(past.sequence, numbers));
    const [first] = this.#live;
    // The first value of a monitor may be the last one that was kept.
    if (past.sequence === undefined && first?.timeNs === past.timeNs.at(-1)) this.#live.shift();
    const gaps = this.#last === undefined ? past.gaps : this.#joinGaps(answer, first);
    this.#fill(answer, past, this.#unkept(answer, replaced), gaps);
    this.#show({ isLoading: false, error });
  };

  /** Joins what was known with an answer. Rows before its begin remain, and those that have no time in it. */
  #fill(
    { isAll, row }: Answer,
    past: PvHistory,
    live: readonly LiveRow[],
    gaps: readonly PvHistoryGap[],
  ): void {
    const begin = past.timeNs.find((ns) => ns > 0n);
    const { timeNs } = this.#base;
    const later = isAll && begin !== undefined ? timeNs.findIndex((ns) => ns >= begin) : -1;
    const end = later < 0 ? timeNs.length : later;
    const isArrival = (own: LiveRow): boolean => this.#arrivals.has(own.timeNs);
    let arrivals: LiveRow[] = [];
    if (this.#arrivals.size > 0) {
      const before = new Set(timeNs.subarray(0, end));
      const known = [...rowsOf(this.#past), ...live];
      arrivals = known.filter((own) => isArrival(own) && !before.has(own.timeNs));
    }
    const stamped = live.filter((own) => !isArrival(own));
    const rows = withArrivals(past, isAll ? 0 : row, arrivals);
    this.#past = chained(this.#base, end, stamped, rows, 0, gaps);
  }

  /** Of the live updates that an answer replaces, those that the relay keeps no longer. */
  #unkept(
    { before, isAll, past: { timeNs }, row }: Answer,
    replaced: readonly LiveRow[],
  ): LiveRow[] {
    const begin = timeNs[row];
    const isAgain = (own: LiveRow): boolean =>
      own.timeNs === before?.timeNs && Object.is(own.number, before.number);
    return replaced.filter((own) => {
      if (isAll || this.#arrivals.has(own.timeNs)) return this.#arrivals.has(own.timeNs);
      return (begin === undefined || own.timeNs < begin) && !isAgain(own);
    });
  }

  /**
   * Returns the gaps that have ended, and keeps one that lasts. Gaps that the page has seen the end of are among those of
   * the relay, if it has received all updates meanwhile.
   */
  #joinGaps({ before, isWhole, past, row }: Answer, first: LiveRow | undefined): PvHistoryGap[] {
    const { gaps, keptSinceNs, timeNs } = past;
    const known = this.#base.gaps.filter((own) => !gaps.some((gap) => overlap(own, gap)));
    const ended = gaps.filter(({ toNs }) => toNs !== undefined);
    const open = gaps.find(({ toNs }) => toNs === undefined);
    let own = this.#gaps.at(-1);
    const isInGap = own !== undefined && own.toNs === undefined;
    const missed: PvHistoryGap[] = [];
    this.#doubtful = undefined;
    if (own !== undefined && isInGap && open === undefined) {
      // The answer has updates since the gap began: it goes on after them.
      const [begin, last] = [timeNs[row], timeNs.at(-1)];
      const isLater = begin !== undefined && last !== undefined && last > own.fromNs;
      if (isLater && !isWhole) missed.push({ ...own, toNs: begin });
      if (isLater) own = { ...own, fromNs: last + 1000n };
      this.#doubtful = { fromNs: own.fromNs, isWhole: isWhole || isLater, isContinued: false };
    }
    if (!isWhole && before !== undefined) {
      const begin = timeNs[row];
      const cut = (gap: PvHistoryGap): PvHistoryGap =>
        begin !== undefined && gap.toNs !== undefined && gap.toNs > begin
          ? { ...gap, toNs: begin }
          : gap;
      missed.push(...this.#gaps.filter(({ toNs }) => toNs !== undefined).map(cut));
      // The relay has dropped what the page was too slow for.
      const isSlow = this.#gaps.length === 0 && keptSinceNs !== undefined && begin !== undefined;
      const fromNs = before.timeNs;
      if (isSlow && fromNs !== undefined) missed.push({ cause: "lost", fromNs, toNs: begin });
    }
    this.#missed = new Set(
      missed.filter(({ fromNs, toNs }) => toNs === undefined || toNs > fromNs),
    );
    const all = [...known, ...this.#missed, ...ended];
    // The relay knows better when it began.
    this.#gaps = own !== undefined && isInGap ? [open ?? own] : [];
    if (open === undefined || isInGap) return all;
    // It has ended since the relay answered. A value may be older than the gap, and clocks differ.
    const ends = [own?.toNs, first?.timeNs, BigInt(Date.now()) * 1_000_000n];
    const toNs = ends.find((ns) => ns !== undefined && ns > open.fromNs) ?? open.fromNs;
    return [...all, { ...open, toNs }];
  }

  /** Too many rows become fewer. Those that are older than what is shown are dropped. */
  #fold(): void {
    const { gaps, timeNs } = this.#past;
    if (timeNs.length + this.#live.length <= MAX_ROWS) return;
    const all = rowsOf(this.#past);
    const past = new Set(all);
    all.push(...this.#live);
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    const beginNs = this.#lengthNs === undefined ? 0n : nowNs - this.#lengthNs;
    const later = all.findIndex((row) => row.timeNs > beginNs);
    // The value that held at the begin is shown.
    const shown = all.slice(Math.max(0, later - 1));
    const rows =
      shown.length < MAX_ROWS / 2
        ? shown
        : folded(shown, MAX_ROWS, {
            numberOf: ({ number }) => number,
            severityOf: ({ severity }) => severity,
            partOf: partsOf([...gaps, ...this.#gaps]),
          });
    this.#live = rows.filter((row) => !past.has(row));
    const isArrival = (ns: bigint): boolean => this.#arrivals.has(ns);
    this.#arrivals = new Set(rows.map((row) => row.timeNs).filter(isArrival));
    this.#past = chained(
      NOTHING,
      0,
      rows.filter((row) => past.has(row)),
      NOTHING,
      0,
      gaps,
    );
  }

  #show(change: Partial<Pick<LivePvHistory, "isLoading" | "error">>): void {
    this.#fold();
    this.#state = { ...this.#state, ...change };
    this.#shown = undefined;
    this.#onChange();
  }
}
