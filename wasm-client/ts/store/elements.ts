/** The typed array for each type of element. */

import { ValueType } from "../schema.js";
import type { NumericArray, PvType } from "../types.js";

/** In the order of the wire's numbers. */
export const TYPES = Object.keys(ValueType) as readonly PvType[];

/** What programs need of arrays; the numbers of `select/execute.rs`. */
export const Needs = { text: 1, characters: 2, elements: 4, structure: 8 } as const;

type ArrayConstructor = {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, offset?: number, length?: number): NumericArray;
};

const ARRAYS: Readonly<Partial<Record<PvType, ArrayConstructor>>> = {
  Float64: Float64Array,
  Float32: Float32Array,
  Int8: Int8Array,
  UInt8: Uint8Array,
  Int16: Int16Array,
  UInt16: Uint16Array,
  Int32: Int32Array,
  UInt32: Uint32Array,
  Int64: BigInt64Array,
  UInt64: BigUint64Array,
  Enum: Uint16Array,
  Boolean: Uint8Array,
};

/** A view of elements in a message. */
export function numericArray(
  buffer: ArrayBuffer,
  offset: number,
  count: number,
  type: PvType,
): NumericArray {
  const constructor = ARRAYS[type] ?? Uint8Array;
  const size = constructor.BYTES_PER_ELEMENT;
  // Relays align elements; unaligned bytes can't be viewed in place.
  return offset % size === 0
    ? new constructor(buffer, offset, count)
    : new constructor(buffer.slice(offset, offset + count * size));
}

/** A copy of elements in memory that is used again. */
export function copiedArray(
  buffer: ArrayBuffer,
  offset: number,
  count: number,
  type: PvType,
): NumericArray {
  const size = (ARRAYS[type] ?? Uint8Array).BYTES_PER_ELEMENT;
  return numericArray(buffer.slice(offset, offset + count * size), 0, count, type);
}
