/** Formats times, counts and very small numbers for display. */

import type { PvTime } from "../types.js";

type TimeStamp = Pick<PvTime, "seconds" | "nanoseconds">;

const count = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat("en-GB", {
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});

/** `12,345`. */
export function formatCount(value: number): string {
  return count.format(value);
}

/** `12.3`, for rates and milliseconds. */
export function formatOneDigit(value: number): string {
  return oneDigit.format(value);
}

/** `07:31:16` in the user's time zone, preceded by the date unless it is today. */
export function formatClock(ms: number): string {
  const at = new Date(ms);
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits).join(":");
  const now = new Date();
  // Compared as numbers, because this runs for every update of every widget.
  if (
    at.getDate() === now.getDate() &&
    at.getMonth() === now.getMonth() &&
    at.getFullYear() === now.getFullYear()
  ) {
    return clock;
  }
  return `${String(at.getFullYear())}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())} ${clock}`;
}

/** Whole seconds past the POSIX epoch. */
function wholeSeconds({ nanoseconds, seconds }: TimeStamp): number {
  return Math.round(seconds - nanoseconds / 1e9);
}

/** `07:31:16.123`, truncated and not rounded: a time stamp must not lie in the future. */
export function formatTimeStamp(time: TimeStamp): string {
  const ms = Math.floor(time.nanoseconds / 1e6);
  return `${formatClock(wholeSeconds(time) * 1000)}.${String(ms).padStart(3, "0")}`;
}

/** `2026-01-31T12:00:00.123456789Z`: the complete time stamp of the IOC. */
export function formatIsoNanoseconds(time: TimeStamp): string {
  const seconds = new Date(wholeSeconds(time) * 1000).toISOString().slice(0, 19);
  return `${seconds}.${String(time.nanoseconds).padStart(9, "0")}Z`;
}

/** `3.21e-9` if `precision` digits after the point would show only zeros. */
export function formatSmall(number: number, precision: number, otherwise: string): string {
  const shown = Math.abs(number) >= 10 ** -precision || number === 0;
  return shown || !Number.isFinite(number) ? otherwise : number.toExponential(digitsOf(precision));
}

/** Maximum number of digits that JavaScript writes. */
const MOST_DIGITS = 100;

/** A precision as a number of digits: PREC may be any number. */
export const digitsOf = (precision: number): number =>
  Math.min(MOST_DIGITS, Math.max(0, precision));

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}
