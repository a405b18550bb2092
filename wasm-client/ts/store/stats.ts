/** Rates and totals of received and skipped updates of a client. */

import type { Clock, Timer } from "../clock.js";
import { Cell } from "./readable.js";
import type { Readable, StatsSnapshot } from "../types.js";

const PERIOD_MS = 1000;

type Totals = Omit<StatsSnapshot, "updatesPerSecond" | "framesPerSecond" | "bytesPerSecond">;

/** Totals, and their rates per second since a snapshot. */
const withRates = (totals: Totals, before: Totals, seconds: number): StatsSnapshot => ({
  ...totals,
  updatesPerSecond: (totals.updatesTotal - before.updatesTotal) / seconds,
  framesPerSecond: (totals.framesTotal - before.framesTotal) / seconds,
  bytesPerSecond: (totals.bytesTotal - before.bytesTotal) / seconds,
});

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
    const none = totals();
    this.#cell = new Cell(withRates(none, none, 1), () => {
      onListened();
      this.#tick();
    });
  }

  readonly subscribe = (listener: () => void): (() => void) => this.#cell.subscribe(listener);

  readonly getSnapshot = (): StatsSnapshot => {
    // With listeners the timer renews it; React requires the same object in between.
    if (!this.#cell.listened) this.#renew();
    return this.#cell.getSnapshot();
  };

  /** Runs while there are listeners. */
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
    this.#cell.set(withRates(this.#totals(), this.#cell.getSnapshot(), seconds));
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer);
  }
}
