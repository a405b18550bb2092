/** Formats values as text. */

import { exactlyFixed } from "./core.js";
import type { NumericArray, PvType } from "../types.js";

/** Maximum number of digits that `toFixed` accepts. */
const MAX_DIGITS = 100;

/** From here on `toFixed` switches to an exponent. */
const TOO_LARGE = 1e21;

/** Above this, a double has no bit for the half of a tie, and products are inexact. */
const EXACT = 2 ** 52;

/** Numbers below this fit in 32 bits, also when 1 is added. */
const SMALL = 2 ** 30;

/** The powers of ten that a double holds exactly. `10 ** places` takes longer than the rest of a format. */
const POWERS = Array.from({ length: 23 }, (_, places) => Number(`1e${String(places)}`));

/** Maximum number of decimal places for which a table is used. */
const TABLE_DIGITS = 3;

/** All numbers of `digits` digits, between two texts: each concatenation costs more than a look-up. */
const table = (digits: number, before: string, after: string): readonly string[] =>
  Array.from(
    { length: 10 ** digits },
    (_, number) => `${before}${String(number).padStart(digits, "0")}${after}`,
  );

/** ".0" to ".9", ".00" to ".99" and ".000" to ".999". */
const AFTER_POINT = [[], table(1, ".", ""), table(2, ".", ""), table(3, ".", "")] as const;

const MILLISECONDS = AFTER_POINT[3];

const MICROSECONDS = table(3, "", "Z");

/**
 * A number with `digits` after the point, as C's `"%.*f"` prints it: exact ties go to even. Without
 * `digits` the shortest text that reads back as the same number of its type.
 */
export function formatNumber(value: number, digits: number | null, type?: PvType): string {
  if (!Number.isFinite(value)) {
    if (Number.isNaN(value)) return "nan";
    return value > 0 ? "inf" : "-inf";
  }
  if (type === "Boolean") return String(value !== 0);
  if (digits === null) return shortest(value, type);
  const places = Math.min(digits, MAX_DIGITS);
  const size = Math.abs(value);
  const power = POWERS[places] ?? Infinity;
  const scaled = size * power;
  // Also for 0 times infinity.
  if (size >= TOO_LARGE || !(scaled < EXACT)) {
    return exactlyFixed(value, places);
  }
  const isMinusZero = value === 0 && Object.is(value, -0);
  const isSmall = scaled < SMALL;
  // Engines cut a small number with one instruction.
  const down = isSmall ? scaled | 0 : Math.floor(scaled);
  const rest = scaled - down;
  if (rest === 0.5 || isMinusZero) return exactlyFixed(value, places);
  // Rounding the product can move it onto a tie, but not across it.
  if (!isSmall || places === 0 || places > TABLE_DIGITS) return value.toFixed(places);
  const rounded = rest > 0.5 ? down + 1 : down;
  const whole = (rounded / power) | 0;
  const after = (AFTER_POINT[places] as readonly string[])[rounded - whole * power] as string;
  const text = String(whole) + after;
  return value < 0 ? `-${text}` : text;
}

/** From this number of digits on, each double, or each 32-bit float, has a different text. */
const FLOAT32_DIGITS = 9;

function shortest(value: number, type: PvType | undefined): string {
  if (Object.is(value, -0)) return "-0";
  if (type === "Float32") {
    for (let digits = 1; digits < FLOAT32_DIGITS; digits += 1) {
      const rounded = Number(value.toPrecision(digits));
      if (Math.fround(rounded) === value) return String(rounded);
    }
  }
  return String(value);
}

/** Maximum number of array elements shown in text. */
const SHOWN = 10;

/** The first elements of an array. */
export function formatArray(
  array: NumericArray | readonly string[],
  digits: number | null,
  type?: PvType,
): string {
  const parts: string[] = [];
  for (const element of array.slice(0, SHOWN)) {
    if (typeof element === "number") parts.push(formatNumber(element, digits, type));
    else parts.push(typeof element === "string" ? JSON.stringify(element) : String(element));
  }
  const more = array.length > SHOWN ? `, … ${String(array.length)} elements` : "";
  return `[${parts.join(", ")}${more}]`;
}

/** Milliseconds past the POSIX epoch as ISO 8601 in UTC; `null` for NaN. */
export function iso(ms: number): string | null {
  return isNaN(ms) ? null : new Date(ms).toISOString();
}

let lastSeconds = NaN;
let lastSecond = "";
let lastMillisecond = NaN;
let lastPrefix = "";

/** ISO 8601 in UTC with microseconds. */
export function formatTime(seconds: number, nanoseconds: number): string {
  const micros = (nanoseconds / 1000) | 0;
  const millisecond = (micros / 1000) | 0;
  // Many PVs change in the same second, and in the same millisecond.
  if (seconds !== lastSeconds || millisecond !== lastMillisecond) {
    if (seconds !== lastSeconds) {
      lastSeconds = seconds;
      lastSecond = new Date(seconds * 1000).toISOString().slice(0, -5);
    }
    lastMillisecond = millisecond;
    lastPrefix = lastSecond + (MILLISECONDS[millisecond] as string);
  }
  return lastPrefix + (MICROSECONDS[micros - 1000 * millisecond] as string);
}
