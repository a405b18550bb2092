/** A clock that a test controls. */

import type { Clock, Timer } from "../clock.js";

/** A clock that stands still until a test advances it. */
export interface FakeClock extends Clock {
  /** Advances the time and calls the timers that become due. */
  advance: (ms: number) => void;
}

/** A clock that stands still until it is advanced; it begins at `epochMs`. */
export function createFakeClock(epochMs = Date.UTC(2026, 0, 1)): FakeClock {
  let now = 0;
  let last = 0;
  const timers = new Map<number, { readonly atMs: number; readonly callback: () => void }>();
  return {
    now: () => now,
    epochMs: () => epochMs + now,
    setTimeout: (callback, delayMs) => {
      last += 1;
      timers.set(last, { atMs: now + Math.max(0, delayMs), callback });
      return last as unknown as Timer;
    },
    clearTimeout: (timer) => {
      timers.delete(timer as unknown as number);
    },
    advance: (ms) => {
      const end = now + ms;
      for (;;) {
        const due = [...timers]
          .filter(([, { atMs }]) => atMs <= end)
          .sort(([, a], [, b]) => a.atMs - b.atMs)[0];
        if (due === undefined) break;
        const [id, { atMs, callback }] = due;
        timers.delete(id);
        now = Math.max(now, atMs);
        callback();
      }
      now = end;
    },
  };
}
