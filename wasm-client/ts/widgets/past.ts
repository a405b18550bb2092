/** What the relay keeps of a PV, as values from a time on. */

import type { PvHistory } from "../types.js";

/** From a time on the PV had a value; `null` if it had none. */
export interface PastRow {
  /** In seconds past the POSIX epoch. */
  readonly at: number;
  readonly value: number | null;
}

const seconds = (ns: bigint): number => Number(ns) / 1e9;

/** The updates and gaps of an answer, in the order of their times. Updates without a time stamp are left out. */
export function pastRows({ gaps, numbers, timeNs }: PvHistory): PastRow[] {
  const rows: PastRow[] = [];
  const marks = gaps.map(({ fromNs, toNs }) => ({ fromNs, toNs })).reverse();
  let open: bigint | undefined;
  let value: number | null = null;
  /** Adds the begins and ends of gaps up to a time. */
  const pass = (until: bigint | undefined): void => {
    for (;;) {
      const isEnd = open !== undefined;
      const at = open ?? marks.at(-1)?.fromNs;
      if (at === undefined || (until !== undefined && at > until)) return;
      if (isEnd) {
        // The value before the gap holds again, unless an update follows at once.
        rows.push({ at: seconds(at), value });
        open = undefined;
      } else {
        open = marks.pop()?.toNs;
        rows.push({ at: seconds(at), value: null });
      }
    }
  };
  timeNs.forEach((ns, row) => {
    if (ns <= 0n) return;
    pass(ns);
    const number = numbers[row] ?? NaN;
    value = Number.isFinite(number) ? number : null;
    rows.push({ at: seconds(ns), value });
  });
  pass(undefined);
  return rows;
}
