/** What the relay keeps of a PV, as values from a time on. */

import type { PvHistory } from "../types.js";

/** From a time on the PV had a value; `null` if it had none. */
export interface PastRow {
  /** In seconds past the POSIX epoch. */
  readonly at: number;
  readonly value: number | null;
}

const seconds = (ns: bigint): number => Number(ns) / 1e9;

/** Clocks may differ by so much. A time stamp further ahead of this machine's clock may be an error of its IOC. */
const LARGEST_LEAD_MS = 60_000;

/**
 * The updates and gaps of an answer, in the order of their times. Updates without a time stamp are left out. One whose time
 * stamp is to come, before others that aren't, has the time of the one before it.
 */
export function pastRows({ gaps, numbers, timeNs }: PvHistory, nowMs = Date.now()): PastRow[] {
  const rows: PastRow[] = [];
  const latest = BigInt(Math.round(nowMs) + LARGEST_LEAD_MS) * 1_000_000n;
  let last = timeNs.length - 1;
  while (last >= 0 && (timeNs[last] ?? 0n) > latest) last -= 1;
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
    const isWrong = row < last && ns > latest;
    const at = isWrong ? rows.at(-1)?.at : seconds(ns);
    if (ns <= 0n || at === undefined) return;
    if (!isWrong) pass(ns);
    const number = numbers[row] ?? NaN;
    value = Number.isFinite(number) ? number : null;
    rows.push({ at, value });
  });
  pass(undefined);
  return rows;
}
