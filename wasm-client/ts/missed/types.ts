/** What an application gets of missed updates. */

import type { PvUpdates, Readable } from "../types.js";

/** Updates that a client has missed and can't have. */
export interface PvAbsent {
  /**
   * They are no longer kept (`evicted`); nothing is kept of the PV or of values of this kind, such as arrays
   * (`not kept`); the relay was too slow (`lost`); the server sent the update before again (`repeated`, nothing is
   * missing); no client had the PV (`not monitored`); the relay was restarted or is another one (`restarted`); this
   * client may not read the PV any more (`not allowed`); or the relay can't tell (`not answered`).
   */
  readonly cause:
    | "evicted"
    | "not kept"
    | "lost"
    | "repeated"
    | "not monitored"
    | "restarted"
    | "not allowed"
    | "not answered";
  /** Number of updates; `undefined` if it is not known. */
  readonly count: number | undefined;
}

/**
 * Updates of a PV that the client has missed while it was cut off. All are older than the first update that came after
 * the reconnect.
 */
export interface PvMissed extends PvUpdates {
  /** Changes when the PV has another type, or the relay has begun a new monitor. */
  readonly epochs: Uint32Array;
  /** Numbers of the updates within their epoch, as `inspect` has them. */
  readonly sequences: Uint32Array;
  /** What else was missed. */
  readonly absent: readonly PvAbsent[];
}

/** Counts over all reconnects. */
export interface MissedSnapshot {
  /** Missed updates that were had afterwards. */
  readonly updatesTotal: number;
  /** Missed updates that can't be had; each is also in the PV's `skips`. */
  readonly absentTotal: number;
  /** PVs of which updates may be missing without a count, once for each time without connection. */
  readonly unknownTotal: number;
  /** PVs whose missed updates are not known yet. */
  readonly waiting: number;
}

/** Asks for missed updates until it is ended. */
export interface MissedWatch extends Readable<MissedSnapshot> {
  /** Ends it. */
  readonly end: () => void;
}
