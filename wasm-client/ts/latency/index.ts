/** pvwire/latency: how long an update takes from the IOC's time stamp to the page's callback, and from there to paint. */

import type { Pv, PvClient, PvConnection, PvTime, Readable } from "../types.js";
import {
  type RelayClock,
  systemTimes,
  type Times,
  WatchedCell,
  watchRelayClock,
} from "./relay_clock.js";

export { watchRelayClock, type RelayClock };

/** Times in buckets like those of Prometheus. */
export interface Histogram {
  /** Upper bounds of the buckets, inclusive; the last is Infinity. */
  readonly endsMs: readonly number[];
  /** Number of times in each bucket. */
  readonly counts: readonly number[];
  /** Number of times in all buckets. */
  readonly count: number;
  /** Sum of all times, in milliseconds. */
  readonly sumMs: number;
}

class Buckets {
  readonly #endsMs: readonly number[];
  #counts: number[];
  #sumMs = 0;

  constructor(endsMs: readonly number[]) {
    this.#endsMs = [...endsMs, Infinity];
    this.#counts = this.#endsMs.map(() => 0);
  }

  add(ms: number): void {
    const at = this.#endsMs.findIndex((end) => ms <= end);
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sumMs += ms;
  }

  snapshot(): Histogram {
    const counts = [...this.#counts];
    const count = counts.reduce((sum, some) => sum + some, 0);
    return { endsMs: this.#endsMs, counts, count, sumMs: this.#sumMs };
  }
}

/**
 * The upper bound of the bucket with the percentile: `percentile(histogram, 99)`; `undefined` for an
 * empty histogram.
 */
export function percentile(histogram: Histogram, percent: number): number | undefined {
  const wanted = (histogram.count * percent) / 100;
  let count = 0;
  const at = histogram.counts.findIndex((some) => {
    count += some;
    return count > 0 && count >= wanted;
  });
  return histogram.endsMs[at];
}

/** Options of `measureLatency`. */
export interface LatencyOptions {
  /**
   * Upper bounds of the histograms' buckets; an unbounded last one is added. @default 1, 2, 5 …
   * 5000
   */
  endsMs?: readonly number[];
}

/** The latencies that were measured since the beginning or the last reset. */
export interface LatencySnapshot {
  /** The correction of the browser's clock; nothing is counted before it is known. */
  readonly clock: RelayClock | undefined;
  /**
   * From the IOC's time stamp until a listener was called, by the relay's clock. Assumes that the clocks of
   * IOC and relay agree, as they do where both follow one time server.
   */
  readonly stampToCallback: Histogram;
  /** From the callback until the browser had painted the frame. */
  readonly callbackToPaint: Histogram;
  /** From the IOC's time stamp until the browser had painted the frame. */
  readonly stampToPaint: Histogram;
  /**
   * Updates whose time stamp was in the future by more than the uncertainty of the clocks' comparison: the
   * IOC's clock is ahead of the relay's. Not counted above.
   */
  readonly fromTheFuture: number;
}

/** The latency of some PVs; it is measured while it has listeners. */
export interface Latency extends Readable<LatencySnapshot> {
  /** Sets all counts to zero. */
  reset: () => void;
}

const ENDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] as const;

/** Browsers report the time in steps of at most this. */
const CLOCK_STEP_MS = 1;

const SELECTION = "{ time { seconds } connection { connected } }";

interface Stamp {
  readonly time: Pick<PvTime, "seconds"> | null;
  readonly connection: Pick<PvConnection, "connected">;
}

/**
 * Measures how long the updates of some PVs take, while it has listeners. Renewed once a second.
 *
 * ```ts
 * const latency = measureLatency(client, ["MAGNET1:TEMP"]);
 * latency.subscribe(() => {
 *   const { stampToPaint } = latency.getSnapshot();
 *   console.log(percentile(stampToPaint, 99));
 * });
 * ```
 *
 * An update that was replaced before the page's next frame is never shown and isn't counted.
 */
export function measureLatency(
  client: PvClient,
  names: readonly string[],
  options: LatencyOptions = {},
  times: Times = systemTimes,
): Latency {
  const { endsMs = ENDS_MS } = options;
  const pvs = names.map((name) => client.pv<Stamp>(name, SELECTION));
  const clock = watchRelayClock(client, times);
  const empty = (): Buckets[] => [new Buckets(endsMs), new Buckets(endsMs), new Buckets(endsMs)];
  let buckets = empty();
  let fromTheFuture = 0;
  const snapshot = (): LatencySnapshot => {
    const [stampToCallback, callbackToPaint, stampToPaint] = buckets.map((some) =>
      some.snapshot(),
    ) as [Histogram, Histogram, Histogram];
    const now = clock.getSnapshot();
    return { clock: now, stampToCallback, callbackToPaint, stampToPaint, fromTheFuture };
  };
  const begin = (): (() => void) => {
    const seen = pvs.map((pv) => pv.getSnapshot());
    const note = (): void => {
      const fresh = stampsOf(pvs, seen);
      const { offsetMs, uncertaintyMs = 0 } = clock.getSnapshot() ?? {};
      // A hidden page isn't painted.
      if (fresh.length === 0 || offsetMs === undefined || isHidden()) return;
      const calledMs = times.epochMs() + offsetMs;
      const calledAt = times.now();
      afterPaint(() => {
        const toPaint = times.now() - calledAt;
        const [stampToCallback, callbackToPaint, stampToPaint] = buckets;
        callbackToPaint?.add(toPaint);
        for (const stampMs of fresh) {
          const toCallback = calledMs - stampMs;
          if (toCallback < -uncertaintyMs - CLOCK_STEP_MS) {
            fromTheFuture += 1;
            continue;
          }
          // Nothing arrives before it is sent: a negative time is an error of the clock comparison.
          stampToCallback?.add(Math.max(0, toCallback));
          stampToPaint?.add(Math.max(0, toCallback) + toPaint);
        }
      });
    };
    const ends = [
      clock.subscribe(() => undefined),
      ...pvs.map((pv) => pv.subscribe(note)),
      client.stats.subscribe(() => {
        cell.set(snapshot());
      }),
    ];
    return () => {
      for (const stop of ends) stop();
    };
  };

  const cell = new WatchedCell(snapshot(), begin);
  return {
    getSnapshot: cell.getSnapshot,
    subscribe: cell.subscribe,
    reset: () => {
      buckets = empty();
      fromTheFuture = 0;
      cell.set(snapshot());
    },
  };
}

/** Time stamps of updates since the last check, in milliseconds past the POSIX epoch. */
function stampsOf(pvs: readonly Pv<Stamp>[], seen: (Stamp | undefined)[]): number[] {
  return pvs.flatMap((pv, at) => {
    const before = seen[at];
    const now = pv.getSnapshot();
    if (now === before) return [];
    seen[at] = now;
    const isOld = now?.time == null || now.time === before?.time || !now.connection.connected;
    // The first update of a subscription or connection may be old.
    if (isOld || before?.time == null || !before.connection.connected) return [];
    return [now.time.seconds * 1000];
  });
}

function isHidden(): boolean {
  return typeof document === "object" && document.visibilityState === "hidden";
}

/**
 * Listeners are called before the page is painted; a message that the page posts to itself arrives
 * after it.
 */
function afterPaint(callback: () => void): void {
  if (typeof requestAnimationFrame === "undefined") {
    setTimeout(callback, 0);
    return;
  }
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    callback();
  };
  port2.postMessage(undefined);
}
