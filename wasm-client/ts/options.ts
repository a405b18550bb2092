/** Checks the numbers in options. An invalid one is an error, not a PV without updates. */

import { PvwireError } from "./errors.js";
import type { PvOptions } from "./types.js";

/** Maximum for timers and for counts on the wire, with room for the round trip. */
const MOST = 2 ** 31 - 10_000;

const ABOVE_0 = Number.MIN_VALUE;

/** The minimum of each option; those from 1 on must be integers. */
const LEAST: Readonly<Record<string, number>> = {
  rateHz: ABOVE_0,
  deadband: 0,
  every: 1,
  stride: 1,
  maxLength: 1,
  points: 2,
  timeoutMs: ABOVE_0,
  unsubscribeDelayMs: 0,
  maxRetryDelayMs: 0,
  pingIntervalMs: ABOVE_0,
  pingTimeoutMs: ABOVE_0,
  hiddenIntervalMs: 0,
};

/** Throws for the first invalid number, and for an average of single updates. */
export function checkOptions(options: object): void {
  const { average, every = 1, rateHz } = options as PvOptions;
  if (average === true && rateHz === undefined && every === 1) {
    throw new PvwireError("BAD_OPTION", "average needs rateHz or every");
  }
  for (const [name, value] of Object.entries(options) as [string, number | undefined][]) {
    const least = LEAST[name];
    if (least === undefined || value === undefined) continue;
    const isWhole = least >= 1;
    const most = name === "deadband" ? Number.MAX_VALUE : MOST;
    const fits = isWhole ? Number.isInteger(value) : Number.isFinite(value);
    if (fits && value >= least && value <= most) continue;
    const kind = isWhole ? "whole number" : "number";
    const from = least === ABOVE_0 ? "above 0" : `from ${String(least)}`;
    throw new PvwireError(
      "BAD_OPTION",
      `${name} is a ${kind} ${from} to ${String(most)}, not ${String(value)}`,
    );
  }
}
