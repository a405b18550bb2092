/** The value that a text of `putChannels` represents. */

import type { PutValue } from "../types.js";
import { fromBase64 } from "./base64.js";

/**
 * A text represents itself unless it looks like a list or array; if that is malformed, there is a
 * problem.
 */
export type ReadValue =
  { readonly value: PutValue; readonly literal: boolean } | { readonly problem: string };

/** `[…]` is a list in JSON, `{"numberType": …, "base64": …}` an array, everything else text. */
export function readPutValue(text: string): ReadValue {
  const literal = { value: text, literal: true } as const;
  if (!/^[[{]/.test(text)) return literal;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return literal;
  }
  if (Array.isArray(parsed)) return readList(parsed, text);
  const { numberType, base64 } = parsed as { numberType?: unknown; base64?: unknown };
  if (typeof numberType !== "string" || typeof base64 !== "string") return literal;
  const array = fromBase64(numberType, base64);
  return typeof array === "string" ? { problem: array } : { value: array, literal: false };
}

function readList(list: readonly unknown[], text: string): ReadValue {
  const is = (type: string): boolean => list.every((entry) => typeof entry === type);
  if (list.length > 0 && is("string")) return { value: list as readonly string[], literal: false };
  if (is("boolean")) return { value: list.map(Number), literal: false };
  if (!is("number")) return { problem: "a list to write holds numbers or strings only" };
  const numbers = list as readonly number[];
  const digits = text.slice(1, -1).split(",");
  // JSON's numbers are doubles; larger integers are parsed digit by digit.
  const isInteger = digits.every((entry) => /^\s*-?\d+\s*$/.test(entry));
  if (isInteger && !numbers.every(Number.isSafeInteger)) {
    return { value: digits.map((entry) => BigInt(entry.trim())), literal: false };
  }
  return { value: numbers, literal: false };
}
