/** Arrays in GraphQL results: numbers as base64, little-endian. */

import type { NumericArray } from "../types.js";

const ARRAYS = {
  INT8: Int8Array,
  UINT8: Uint8Array,
  INT16: Int16Array,
  UINT16: Uint16Array,
  INT32: Int32Array,
  UINT32: Uint32Array,
  INT64: BigInt64Array,
  UINT64: BigUint64Array,
  FLOAT32: Float32Array,
  FLOAT64: Float64Array,
} as const;

const NAMES = new Map<unknown, string>(
  Object.entries(ARRAYS).map(([name, constructor]) => [constructor, name]),
);

export interface Base64Array {
  readonly numberType: string;
  readonly base64: string;
}

export const isNumeric = (value: unknown): value is NumericArray => NAMES.has(constructorOf(value));

const constructorOf = (value: unknown): unknown =>
  typeof value === "object" && value !== null ? value.constructor : undefined;

/** Name of an array's element type. */
export const numberType = (array: NumericArray): string => NAMES.get(array.constructor) ?? "UINT8";

/** The first `length` elements, or all if it is 0 or less. */
export function first<T extends NumericArray | readonly string[]>(array: T, length: number): T {
  if (length <= 0 || length >= array.length) return array;
  return (
    Array.isArray(array) ? array.slice(0, length) : (array as NumericArray).subarray(0, length)
  ) as T;
}

/** Maximum number of bytes converted at once: they are the arguments of one call. */
const CHUNK = 0x4000;

export function toBase64(array: NumericArray): Base64Array {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return { numberType: numberType(array), base64: btoa(text) };
}

/** The array, or an error message if the text is not a valid one. */
export function fromBase64(type: string, base64: string): NumericArray | string {
  const constructor = ARRAYS[type.toUpperCase() as keyof typeof ARRAYS];
  if (!(type.toUpperCase() in ARRAYS)) return `there is no number type ${type}`;
  let text: string;
  try {
    text = atob(base64);
  } catch {
    return "the array is no base64";
  }
  const size = constructor.BYTES_PER_ELEMENT;
  if (text.length % size !== 0) {
    return `${String(text.length)} bytes are no whole number of ${type.toUpperCase()} elements`;
  }
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  return new constructor(bytes.buffer);
}
