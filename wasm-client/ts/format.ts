/** How does a value read? */

import { exactlyFixed } from "./core.js";
import type { NumericArray } from "./types.js";

/** Most digits that `toFixed` takes. */
const MAX_DIGITS = 100;

/** From here on `toFixed` changes to an exponent. */
const TOO_LARGE = 1e21;

/** Above, a double has no bit for the half that makes a tie, and products lose it. */
const EXACT = 2 ** 52;

/** The largest power of ten that a double holds exactly. */
const EXACT_POWER = 22;

/** A number with `digits` after the point, as C's `"%.*f"` prints it: exact ties go to even. */
export function formatNumber(value: number, digits: number): string {
  if (!Number.isFinite(value)) {
    if (Number.isNaN(value)) return "nan";
    return value > 0 ? "inf" : "-inf";
  }
  const places = Math.min(digits, MAX_DIGITS);
  const size = Math.abs(value);
  const scaled = size * 10 ** places;
  if (size >= TOO_LARGE || scaled >= EXACT || places > EXACT_POWER) {
    return exactlyFixed(value, places);
  }
  const mayBeTie = scaled - Math.floor(scaled) === 0.5;
  const isMinusZero = value === 0 && Object.is(value, -0);
  return mayBeTie || isMinusZero ? exactlyFixed(value, places) : value.toFixed(places);
}

/** How many elements of an array are shown in text. */
const SHOWN = 10;

/** An array's first elements. */
export function formatArray(array: NumericArray | readonly string[], digits: number): string {
  const parts: string[] = [];
  for (const element of array.slice(0, SHOWN)) {
    if (typeof element === "number") parts.push(formatNumber(element, digits));
    else parts.push(typeof element === "string" ? JSON.stringify(element) : String(element));
  }
  const more = array.length > SHOWN ? `, … ${String(array.length)} elements` : "";
  return `[${parts.join(", ")}${more}]`;
}

/** ISO 8601 in UTC of milliseconds past the POSIX epoch; `null` for NaN. */
export function iso(ms: number): string | null {
  return isNaN(ms) ? null : new Date(ms).toISOString();
}

let lastSeconds = NaN;
let lastPrefix = "";

/** ISO 8601 in UTC with microseconds. */
export function formatTime(seconds: number, nanoseconds: number): string {
  // Many PVs change in the same second.
  if (seconds !== lastSeconds) {
    lastSeconds = seconds;
    lastPrefix = new Date(seconds * 1000).toISOString().slice(0, -4);
  }
  return `${lastPrefix}${String(Math.floor(nanoseconds / 1000)).padStart(6, "0")}Z`;
}
