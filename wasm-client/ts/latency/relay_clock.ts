/** The relay's clock, from the time in its answers to pings and their round trips. */

import { Cell } from "../store/readable.js";
import type { PvClient, Readable } from "../types.js";
import { Client } from "../client/client.js";

/** A value that is kept current while it has listeners. */
export class WatchedCell<T> implements Readable<T> {
  #cell: Cell<T>;
  #end: (() => void) | undefined;

  /** `begin` is called with the first listener, the function that it returns after the last. */
  constructor(value: T, begin: () => () => void) {
    this.#cell = new Cell(value, () => {
      this.#end ??= begin();
    });
  }

  readonly getSnapshot = (): T => this.#cell.getSnapshot();

  readonly subscribe = (listener: () => void): (() => void) => {
    const remove = this.#cell.subscribe(listener);
    return () => {
      remove();
      if (this.#cell.listened) return;
      this.#end?.();
      this.#end = undefined;
    };
  };

  set(value: T): void {
    this.#cell.set(value);
  }
}

/** Number of answers that are kept; the one with the shortest round trip is used. */
const SAMPLES = 8;

/** An answer that is this much older than expected was measured wrongly. */
const LATE_MS = 3000;

/** The relay's clock, compared with the browser's. */
export interface RelayClock {
  /** The relay's clock minus the browser's. */
  readonly offsetMs: number;
  /** Maximum error of `offsetMs`: half the round trip. */
  readonly uncertaintyMs: number;
  /** Round trip of the answer that `offsetMs` comes from. */
  readonly roundTripMs: number;
}

export interface Times {
  /** Milliseconds past the POSIX epoch. */
  epochMs: () => number;
  /** Milliseconds that never decrease. */
  now: () => number;
}

export const systemTimes: Times = { epochMs: () => Date.now(), now: () => performance.now() };

/**
 * The relay's clock, from the client's own pings; `undefined` until one is answered and while there is no
 * connection. Renewed once a second while it has listeners.
 */
export function watchRelayClock(
  client: PvClient,
  times: Times = systemTimes,
): Readable<RelayClock | undefined> {
  if (!(client instanceof Client)) throw new TypeError("a client of createClient is needed");
  let samples: RelayClock[] = [];
  let instance: string | undefined;
  let lastPingMs = 0;
  const look = (): void => {
    const { relayInstance, state } = client.connection.getSnapshot();
    if (state !== "open" || relayInstance !== instance) {
      instance = state === "open" ? relayInstance : undefined;
      samples = [];
      if (cell.getSnapshot() !== undefined) cell.set(undefined);
    }
    const { roundTripMs } = client.stats.getSnapshot();
    if (state !== "open" || roundTripMs === undefined) return;
    const [pingMs = 0, relayMs = 0] = client.pvs.core().pong();
    if (relayMs === 0 || pingMs === lastPingMs) return;
    lastPingMs = pingMs;
    if (times.epochMs() - pingMs - roundTripMs > LATE_MS) return;
    const uncertaintyMs = roundTripMs / 2;
    samples.push({ offsetMs: relayMs - pingMs - uncertaintyMs, uncertaintyMs, roundTripMs });
    samples = samples.slice(-SAMPLES);
    cell.set(samples.reduce((best, one) => (one.roundTripMs < best.roundTripMs ? one : best)));
  };
  const cell = new WatchedCell<RelayClock | undefined>(undefined, () =>
    client.stats.subscribe(look),
  );
  return cell;
}
