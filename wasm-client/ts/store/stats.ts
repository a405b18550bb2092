/** How much comes, and how much was left out? */

import type { Clock, Timer } from "../clock.js";
import { Cell } from "./readable.js";
import type { Readable, StatsSnapshot } from "../types.js";

const PERIOD_MS = 1000;

type Totals = Omit<StatsSnapshot, "updatesPerSecond" | "framesPerSecond" | "bytesPerSecond">;

const NOTHING: StatsSnapshot = {
  updatesPerSecond: 0,
  framesPerSecond: 0,
  bytesPerSecond: 0,
  updatesTotal: 0,
  framesTotal: 0,
  bytesTotal: 0,
  skippedTotal: 0,
  gapsTotal: 0,
  reconnectsTotal: 0,
  subscriptions: 0,
  roundTripMs: undefined,
};

export class Stats implements Readable<StatsSnapshot> {
  #clock: Clock;
  #totals: () => Totals;
  #cell: Cell<StatsSnapshot>;
  #takenAt: number;
  #timer: Timer | undefined;

  constructor(clock: Clock, totals: () => Totals, onListened: () => void) {
    this.#clock = clock;
    this.#totals = totals;
    this.#takenAt = clock.now();
    this.#cell = new Cell(NOTHING, () => {
      onListened();
      this.#tick();
    });
  }

  readonly subscribe = (listener: () => void): (() => void) => this.#cell.subscribe(listener);

  readonly getSnapshot = (): StatsSnapshot => {
    // With listeners the timer renews it; React wants the same object in between.
    if (!this.#cell.listened) this.#renew();
    return this.#cell.getSnapshot();
  };

  /** Runs while somebody listens. */
  #tick(): void {
    this.#timer ??= this.#clock.setTimeout(() => {
      this.#timer = undefined;
      this.#renew();
      if (this.#cell.listened) this.#tick();
    }, PERIOD_MS);
  }

  #renew(): void {
    const now = this.#clock.now();
    const seconds = (now - this.#takenAt) / 1000;
    // Timers are not exact; rates over a shorter time would jump.
    if (seconds < 0.9) return;
    this.#takenAt = now;
    const before = this.#cell.getSnapshot();
    const totals = this.#totals();
    this.#cell.set({
      ...totals,
      updatesPerSecond: (totals.updatesTotal - before.updatesTotal) / seconds,
      framesPerSecond: (totals.framesTotal - before.framesTotal) / seconds,
      bytesPerSecond: (totals.bytesTotal - before.bytesTotal) / seconds,
    });
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer);
  }
}
