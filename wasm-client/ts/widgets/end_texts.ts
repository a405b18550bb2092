/** The numbers at the ends of a scale. */

import type { Range } from "./scale.js";

/** The ends of a scale as text: all digits of integers, of others those that the range needs. */
export function endTexts([low, high]: Range): readonly [low: string, high: string] {
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const needed = Math.ceil(Math.log10(largest / (high - low))) + 4;
  // NaN if the ends are equal or not finite.
  const digits = Math.min(17, Math.max(7, needed || 17));
  const textOf = (number: number): string =>
    String(Number.isSafeInteger(number) ? number : Number(number.toPrecision(digits)));
  return [textOf(low), textOf(high)];
}
