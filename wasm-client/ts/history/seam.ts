/** Where the past ends and live updates begin, by the numbers of updates. */

import type { PvHistory } from "../types.js";

/** Whether an update comes after another one. Numbers wrap around. */
const isAfter = (one: number, other: number): boolean => ((one - other) | 0) > 0;

/** An update that was seen. */
export interface SeenUpdate {
  /** Among those of its PV, modulo 2^32. */
  readonly sequence: number | undefined;
  /** `undefined` without a time stamp. */
  readonly timeNs: bigint | undefined;
  readonly number: number;
}

/** How an answer continues what was seen before. */
export interface Continuation {
  /** The first row of the answer that is later than what was seen. */
  readonly row: number;
  /** Nothing is missing in between but what the answer's gaps say. */
  readonly isWhole: boolean;
}

/**
 * Where an answer continues after an update: by their numbers if the same relay has counted them in one piece, otherwise
 * by their time stamps.
 */
export function continuation(
  past: PvHistory,
  seen: SeenUpdate,
  isSameRelay: boolean,
): Continuation {
  const { bins, keptSinceNs, numbers, sequence, skipped, timeNs } = past;
  const isThinned = bins.some((bin) => bin.updates > bin.rows || bin.skipped > 0);
  if (isSameRelay && sequence !== undefined && seen.sequence !== undefined && !isThinned) {
    let row = timeNs.length;
    let number = sequence;
    for (; row > 0 && isAfter(number, seen.sequence); row -= 1) {
      number -= 1 + (skipped.get(row - 1) ?? 0);
    }
    const isIt =
      row === 0 || (timeNs[row - 1] === seen.timeNs && Object.is(numbers[row - 1], seen.number));
    if (((number - seen.sequence) | 0) === 0 && isIt) return { row, isWhole: true };
  }
  const { timeNs: seenNs } = seen;
  if (seenNs === undefined) return { row: 0, isWhole: isSameRelay };
  const later = timeNs.findIndex((ns) => ns > seenNs);
  const begins = keptSinceNs !== undefined && keptSinceNs <= seenNs;
  // The same relay may have dropped the PV meanwhile, and counts from the begin.
  const isSameCount =
    sequence === undefined || seen.sequence === undefined || !isAfter(seen.sequence, sequence);
  return {
    row: later < 0 ? timeNs.length : later,
    // The first value of a relay that was restarted may be as old as what was seen.
    isWhole: begins && ((isSameRelay && isSameCount) || keptSinceNs < seenNs),
  };
}

/** Decides which live updates the past already has. */
export class Seam {
  /** Number of the last live update. */
  #last: number | undefined;
  /** Number of the last update of the past, as long as updates up to it may still come. */
  #until: number | undefined;

  /** Takes a live update; returns whether the past has it, because the relay answered before it sent it. */
  has(sequence: number | undefined): boolean {
    const [last, until] = [this.#last, this.#until];
    this.#last = sequence;
    if (sequence === undefined || until === undefined) return false;
    // The numbers of a PV that begins again are smaller.
    const isNext = last === undefined || isAfter(sequence, last);
    if (isNext && !isAfter(sequence, until)) return true;
    this.#until = undefined;
    return false;
  }

  /** Whether the past has all updates before a live one. */
  continues(sequence: number | undefined): boolean {
    const until = this.#until;
    return sequence !== undefined && until !== undefined && !isAfter(sequence, until + 1);
  }

  /** The PV is disconnected: its numbers may begin again. */
  cut(): void {
    this.#until = undefined;
  }

  /**
   * A past up to this update is joined with live updates, of which `numbers` are known; returns how many of
   * them the past replaces. Without a number the relay has not opened the PV, so that all are later.
   */
  join(sequence: number | undefined, numbers: readonly (number | undefined)[]): number {
    this.#until = sequence;
    if (sequence === undefined) return 0;
    let replaced = 0;
    numbers.forEach((own, at) => {
      if (own !== undefined && !isAfter(own, sequence)) replaced = at + 1;
    });
    return replaced;
  }
}
