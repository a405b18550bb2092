/** The values of a strip chart over time. It states nothing that the PV wasn't known to be. */

import { folded } from "../history/fold.js";
import { Seam } from "../history/seam.js";
import type { Points } from "./decimate.js";
import type { PastRow } from "./past.js";

/** Interval at which a chart's time axis moves if no data arrives. */
export const STEP_MS = 250;

/** What a PV has sent, at one moment. */
export interface Sight {
  /** `undefined` while the PV isn't connected, doesn't respond, or has no value. */
  readonly value: number | undefined;
  /** The value's time stamp in seconds past the POSIX epoch. */
  readonly stamp: number | undefined;
  /** When the server was last seen, by this machine's clock, if it no longer is. */
  readonly lastSeen?: number | undefined;
  /** Number of the update among those of its PV, modulo 2^32. */
  readonly sequence?: number | undefined;
}

/** Why values are placed by their arrival. */
export type ByArrival = "no time stamps" | "time stamps that don't change";

/** A source's clock. It is compared with this machine's by updates, never by a first value, which may be old. */
interface SourceClock {
  /** From a time stamp to this machine's clock, in seconds; `undefined` before the first update. */
  offset: number | undefined;
  /** When the last update came. */
  lastSeen: number;
}

interface Sample {
  /** By `clock`, or by this machine's clock without one. */
  readonly at: number;
  readonly clock: SourceClock | undefined;
  /** By this machine's clock: a value isn't from later than its arrival. */
  readonly arrival: number;
  /** `null` where there is no number. */
  readonly value: number | null;
  /** Of an update, if it is known. */
  readonly sequence: number | undefined;
  /** It is of the past that the relay has kept: the next such past has it too. */
  readonly isPast: boolean;
  /** Its update has no time stamp: no past has a place for it. */
  readonly isUnstamped: boolean;
}

type NewSample = Pick<Sample, "at" | "clock" | "arrival" | "value"> & Partial<Sample>;

/** Most updates of a curve; of older ones, extremes and gaps remain. */
const MAX_SAMPLES = 40_000;

/**
 * An update whose delay differs by more than this from those before has a time stamp of another clock,
 * or of a clock that was set. In seconds.
 */
const LARGEST_DELAY = 5;

/** How much faster one of two clocks may be. */
const DRIFT = 1e-3;

export class History {
  #samples: Sample[] = [];
  #clock: SourceClock = { offset: undefined, lastSeen: 0 };
  #stamp: number | undefined;
  #byArrival: ByArrival | undefined;
  #seam = new Seam();
  /** The past goes on after the gap that lasts. */
  #isDoubtful = false;

  /** Set while values are placed by their arrival. */
  get byArrival(): ByArrival | undefined {
    return this.#byArrival;
  }

  /** From the source's time stamps to this machine's clock, in seconds. */
  get offset(): number {
    return this.#byArrival === undefined ? (this.#clock.offset ?? 0) : 0;
  }

  /** Takes an update at `now`, by this machine's clock in seconds. */
  add(now: number, { lastSeen, sequence, stamp, value }: Sight): void {
    let last = this.#samples.at(-1);
    if (value === undefined) {
      this.#seam.cut();
      this.#isDoubtful = false;
      // Until the server was last seen the value was right; a clock that differs may not erase more
      // than it takes to notice.
      const at = Math.max(now - LARGEST_DELAY, Math.min(now, lastSeen ?? now));
      if (last?.value !== null) this.#push({ at, clock: undefined, arrival: now, value: null });
      this.#stamp = undefined;
      return;
    }
    const isFilled = this.#isDoubtful && last?.value === null && this.#seam.continues(sequence);
    if (isFilled) {
      this.#samples.pop();
      last = this.#samples.at(-1);
      this.#stamp = last?.at;
    }
    this.#isDoubtful = false;
    // The past has no place for a value whose time stamp is unusable.
    const isPlaced = stamp !== undefined && stamp !== this.#stamp;
    // After a gap the value is there again, though the past has it.
    if (this.#seam.has(sequence) && (isFilled || (isPlaced && last?.value !== null))) {
      this.#stamp = stamp;
      return;
    }
    const number = Number.isFinite(value) ? value : null;
    const seen = { at: now, clock: undefined, arrival: now, value: number, sequence };
    const before = this.#stamp;
    this.#stamp = stamp;
    if (stamp === undefined) {
      this.#byArrival = "no time stamps";
      this.#push({ ...seen, isUnstamped: true });
    } else if (before === undefined) {
      // The first value of a chart has been there since its time stamp. One after a gap was seen now.
      this.#byArrival = undefined;
      if (last === undefined) this.#push({ ...seen, at: stamp, clock: this.#clock });
      else this.#push(seen);
    } else if (stamp === before) {
      this.#byArrival = "time stamps that don't change";
      this.#push(seen);
    } else {
      this.#byArrival = undefined;
      this.#compare(now, stamp, before);
      this.#push({ ...seen, at: stamp, clock: this.#clock });
    }
  }

  /** Compares the source's clock with this machine's. */
  #compare(now: number, stamp: number, before: number): void {
    const delay = now - stamp;
    const { lastSeen, offset = delay } = this.#clock;
    if (stamp < before || Math.abs(delay - offset) > LARGEST_DELAY) {
      this.#clock = { offset: delay, lastSeen: now };
    } else {
      // The least delay is the best estimate, as long as the clocks don't drift.
      this.#clock.offset = Math.min(delay, offset + DRIFT * Math.max(0, now - lastSeen));
      this.#clock.lastSeen = now;
    }
  }

  #push(sample: NewSample): void {
    this.#samples.push({ sequence: undefined, isPast: false, isUnstamped: false, ...sample });
    this.#fold();
  }

  #fold(): void {
    if (this.#samples.length <= MAX_SAMPLES) return;
    this.#samples = folded(this.#samples, MAX_SAMPLES, { numberOf: ({ value }) => value ?? NaN });
  }

  /** Updates are missing after those that were seen: the next past has them, and may be of another relay. */
  missing(): void {
    this.#samples = this.#samples.map((sample) => ({ ...sample, isPast: true }));
  }

  /**
   * Replaces what was seen by what the relay has kept, up to the update with this sequence number. What was
   * seen before the past begins remains, and so do updates after it. Without a number the relay has not
   * opened the PV: all that was seen is later. A past that completes the one before has been joined already.
   * One that isn't whole doesn't have what the relay missed: the last gap remains.
   */
  join(
    past: readonly PastRow[],
    sequence: number | undefined,
    now: number,
    { isJoined = false, isWhole = true } = {},
  ): void {
    const gap = isWhole ? -1 : this.#samples.map(({ value }) => value).lastIndexOf(null);
    const earlier = this.#samples.slice(0, gap + 1);
    const begin = earlier.at(-1)?.at ?? -Infinity;
    const known = past.filter(({ at }) => at > begin);
    const [first] = known;
    if (first === undefined) return;
    const seen = this.#samples.slice(gap + 1);
    const numbers = seen.map((sample) => (sample.isPast ? undefined : sample.sequence));
    const replaced = seen.map(({ isPast }) => isPast).lastIndexOf(true) + 1;
    let kept = Math.max(replaced, isJoined ? 0 : this.#seam.join(sequence, numbers));
    // The past has the gaps before an update.
    while (!isJoined && seen[kept]?.value === null && kept + 1 < seen.length) kept += 1;
    // A gap that lasts remains until an update shows that nothing is missing.
    const isInGap = seen.at(-1)?.value === null;
    if (isInGap) kept = Math.min(kept, seen.length - 1);
    if (!isJoined) this.#isDoubtful = isInGap && isWhole && known.at(-1)?.value !== null;
    const before = seen.slice(0, kept);
    const end = before.findIndex(({ at }) => at >= first.at);
    const later = seen.slice(kept);
    // The first value of a monitor may be the last one that was kept.
    if (sequence === undefined && later[0]?.at === known.at(-1)?.at) later.shift();
    const until = sequence === undefined ? (later[0]?.at ?? Infinity) : Infinity;
    const between = known
      .filter(({ at }) => at <= until)
      .map(({ at, value }): Sample => ({
        at,
        clock: this.#clock,
        arrival: now,
        value,
        sequence: undefined,
        isPast: true,
        isUnstamped: false,
      }));
    const remaining = end < 0 ? before : before.slice(0, end);
    for (const sample of before.slice(remaining.length)) {
      if (!sample.isUnstamped) continue;
      const next = between.findIndex(({ at }) => at > sample.at);
      between.splice(next < 0 ? between.length : next, 0, sample);
    }
    this.#samples = [...earlier, ...remaining, ...between, ...later];
    this.#fold();
  }

  /** Drops what is older than the last `seconds` before `now`, but for the value of the left edge; returns the others' times. */
  trim(now: number, seconds: number): readonly number[] {
    const times = this.#times();
    const later = times.findIndex((time) => time > now - seconds);
    const first = Math.max(0, (later < 0 ? times.length : later) - 1);
    this.#samples.splice(0, first);
    return times.slice(first);
  }

  /**
   * The curve of the last `seconds` before `now`, in seconds relative to `now`: each value holds until the
   * next, the last one until now. Where samples are denser than `columns`, each column has its first,
   * lowest, highest and last one.
   */
  curve(now: number, seconds: number, columns: number): Points {
    const times = this.trim(now, seconds);
    const curve = new Steps();
    const columnOf = (time: number): number => Math.floor(((time - now) / seconds) * columns);
    const isDense = this.#samples.length > 2 * columns;
    for (let at = 0; at < this.#samples.length;) {
      const time = Math.max(times[at] ?? now, now - seconds) - now;
      let end = at + 1;
      if (isDense) {
        const column = columnOf(time + now);
        while (end < times.length && columnOf(times[end] ?? now) <= column) end += 1;
      }
      for (const value of extremesOf(this.#samples.slice(at, end)))
        curve.step(Math.min(time, 0), value);
      at = end;
    }
    curve.hold(0);
    return curve;
  }

  /** When each sample began, by this machine's clock: never before the one before. */
  #times(): number[] {
    let last = -Infinity;
    return this.#samples.map(({ arrival, at, clock }) => {
      last = Math.max(last, Math.min(arrival, at + (clock?.offset ?? 0)));
      return last;
    });
  }
}

/** The first, lowest, highest and last value, and a gap if there is one. */
function extremesOf(samples: readonly Sample[]): readonly (number | null)[] {
  const [first, second] = samples;
  if (first === undefined) return [];
  if (second === undefined) return [first.value];
  let [low, high] = [Infinity, -Infinity];
  let hasGap = false;
  for (const { value } of samples) {
    if (value === null) {
      hasGap = true;
      continue;
    }
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const extremes = low <= high ? [low, high] : [];
  return [first.value, ...extremes, ...(hasGap ? [null] : []), samples.at(-1)?.value ?? null];
}

/** A line of steps. */
class Steps {
  readonly x: number[] = [];
  readonly y: (number | null)[] = [];

  /** From `time` on, the value is another one. */
  step(time: number, value: number | null): void {
    this.hold(time);
    this.#add(time, value);
  }

  /** The last value holds until `time`. */
  hold(time: number): void {
    const last = this.y.at(-1);
    if (last !== undefined && this.x.at(-1) !== time) this.#add(time, last);
  }

  #add(time: number, value: number | null): void {
    this.x.push(time);
    this.y.push(value);
  }
}
