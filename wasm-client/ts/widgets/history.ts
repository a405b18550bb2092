/** The values of a strip chart over time. It states nothing that the PV wasn't known to be. */

import type { Points } from "./decimate.js";

/** What a PV has sent, at one moment. */
export interface Sight {
  /** `undefined` while the PV isn't connected, doesn't respond, or has no value. */
  readonly value: number | undefined;
  /** The value's time stamp in seconds past the POSIX epoch. */
  readonly stamp: number | undefined;
  /** When the server was last heard, by this machine's clock, if it no longer is. */
  readonly heard?: number | undefined;
}

/** Why values are placed by their arrival. */
export type ByArrival = "no time stamps" | "time stamps that don't change";

/** A source's clock. It is compared with this machine's by updates, never by a first value, which may be old. */
interface SourceClock {
  /** From a time stamp to this machine's clock, in seconds; `undefined` before the first update. */
  offset: number | undefined;
  /** When the last update came. */
  heard: number;
}

interface Sample {
  /** By `clock`, or by this machine's clock without one. */
  readonly at: number;
  readonly clock: SourceClock | undefined;
  /** By this machine's clock: a value isn't from later than its arrival. */
  readonly arrival: number;
  /** `null` where there is no number. */
  readonly value: number | null;
}

/**
 * An update whose delay differs by more than this from those before has a time stamp of another clock,
 * or of a clock that was set. In seconds.
 */
const LARGEST_DELAY = 5;

/** How much faster one of two clocks may be. */
const DRIFT = 1e-3;

export class History {
  #samples: Sample[] = [];
  #clock: SourceClock = { offset: undefined, heard: 0 };
  #stamp: number | undefined;
  #byArrival: ByArrival | undefined;

  /** Set while values are placed by their arrival. */
  get byArrival(): ByArrival | undefined {
    return this.#byArrival;
  }

  /** From the source's time stamps to this machine's clock, in seconds. */
  get offset(): number {
    return this.#byArrival === undefined ? (this.#clock.offset ?? 0) : 0;
  }

  /** Takes an update at `now`, by this machine's clock in seconds. */
  add(now: number, { heard, stamp, value }: Sight): void {
    const last = this.#samples.at(-1);
    if (value === undefined) {
      // Until the server was last heard the value was right; a clock that differs may not erase more
      // than it takes to notice.
      const at = Math.max(now - LARGEST_DELAY, Math.min(now, heard ?? now));
      if (last?.value !== null) this.#push(at, undefined, now, null);
      this.#stamp = undefined;
      return;
    }
    const number = Number.isFinite(value) ? value : null;
    const before = this.#stamp;
    this.#stamp = stamp;
    if (stamp === undefined) {
      this.#byArrival = "no time stamps";
      this.#push(now, undefined, now, number);
    } else if (before === undefined) {
      // The first value of a chart has been there since its time stamp. One after a gap was seen now.
      this.#byArrival = undefined;
      if (last === undefined) this.#push(stamp, this.#clock, now, number);
      else this.#push(now, undefined, now, number);
    } else if (stamp === before) {
      this.#byArrival = "time stamps that don't change";
      this.#push(now, undefined, now, number);
    } else {
      this.#byArrival = undefined;
      this.#compare(now, stamp, before);
      this.#push(stamp, this.#clock, now, number);
    }
  }

  /** Compares the source's clock with this machine's. */
  #compare(now: number, stamp: number, before: number): void {
    const delay = now - stamp;
    const { heard, offset = delay } = this.#clock;
    if (stamp < before || Math.abs(delay - offset) > LARGEST_DELAY) {
      this.#clock = { offset: delay, heard: now };
    } else {
      // The least delay is the best estimate, as long as the clocks don't drift.
      this.#clock.offset = Math.min(delay, offset + DRIFT * Math.max(0, now - heard));
      this.#clock.heard = now;
    }
  }

  #push(at: number, clock: SourceClock | undefined, arrival: number, value: number | null): void {
    this.#samples.push({ at, clock, arrival, value });
  }

  /**
   * The curve of the last `seconds` before `now`, in seconds relative to `now`: each value holds until the
   * next, the last one until now. Where samples are denser than `columns`, each column has its first,
   * lowest, highest and last one.
   */
  curve(now: number, seconds: number, columns: number): Points {
    const times = this.#times();
    // The value that held at the left edge is kept.
    const later = times.findIndex((time) => time > now - seconds);
    const first = Math.max(0, (later < 0 ? times.length : later) - 1);
    this.#samples.splice(0, first);
    times.splice(0, first);
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
