/** Histograms of times, with buckets like those of Prometheus. */

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

export class Buckets {
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
