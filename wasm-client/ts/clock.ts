/** The clock that a client uses. It is passed in, so that tests can control the time. */

export type Timer = ReturnType<typeof setTimeout>;

export interface Clock {
  /** Milliseconds that never decrease, for measuring. */
  now(): number;
  /** Milliseconds past the POSIX epoch, for display. */
  epochMs(): number;
  /** Calls a function after a delay in milliseconds of this clock. */
  setTimeout(callback: () => void, delayMs: number): Timer;
  /** Cancels a timer. */
  clearTimeout(timer: Timer | undefined): void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  epochMs: () => Date.now(),
  setTimeout: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimeout: (timer) => {
    clearTimeout(timer);
  },
};
