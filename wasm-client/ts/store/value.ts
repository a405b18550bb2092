/** Passes a value that an application writes to the module. */

import type { Core } from "../../pkg/pvwire_wasm.js";
import { TYPES } from "./elements.js";
import type { NumericArray, PutValue, PvType } from "../types.js";

const INT64_MIN = -(2n ** 63n);
const INT64_END = 2n ** 63n;
const UINT64_END = 2n ** 64n;

const ARRAY_TYPES = new Map<unknown, PvType>([
  [Float64Array, "Float64"],
  [Float32Array, "Float32"],
  [Int8Array, "Int8"],
  [Uint8Array, "UInt8"],
  [Uint8ClampedArray, "UInt8"],
  [Int16Array, "Int16"],
  [Uint16Array, "UInt16"],
  [Int32Array, "Int32"],
  [Uint32Array, "UInt32"],
  [BigInt64Array, "Int64"],
  [BigUint64Array, "UInt64"],
]);

/** What a value is passed to. */
type Stage = Pick<
  Core,
  "value_number" | "value_int64" | "value_uint64" | "value_text" | "value_texts" | "value_array"
>;

/** Stages the value for the next put or argument; returns the reason if it is invalid. */
export function stageValue(core: Stage, value: PutValue): string | undefined {
  switch (typeof value) {
    case "number":
      core.value_number(value);
      return undefined;
    case "boolean":
      core.value_number(value ? 1 : 0);
      return undefined;
    case "bigint":
      return stageInteger(core, value);
    case "string":
      core.value_text(value);
      return undefined;
    default:
      return ArrayBuffer.isView(value) ? stageArray(core, value) : stageList(core, value);
  }
}

function stageInteger(core: Stage, value: bigint): string | undefined {
  if (value < INT64_MIN || value >= UINT64_END) return `${String(value)} has more than 64 bits`;
  if (value < INT64_END) core.value_int64(value);
  else core.value_uint64(value);
  return undefined;
}

function stageArray(core: Stage, array: NumericArray): string | undefined {
  const type = ARRAY_TYPES.get(array.constructor);
  if (type === undefined) return "no such array can be written";
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  core.value_array(TYPES.indexOf(type), array.length, bytes);
  return undefined;
}

function stageList(core: Stage, list: readonly unknown[]): string | undefined {
  if (!Array.isArray(list)) return "only numbers, strings, booleans and arrays can be written";
  if (list.length > 0 && list.every((entry) => typeof entry === "string")) {
    core.value_texts(list);
    return undefined;
  }
  if (list.length > 0 && list.every((entry) => typeof entry === "bigint")) {
    const within = (from: bigint, end: bigint): boolean =>
      list.every((entry) => entry >= from && entry < end);
    if (within(INT64_MIN, INT64_END)) return stageArray(core, BigInt64Array.from(list));
    if (within(0n, UINT64_END)) return stageArray(core, BigUint64Array.from(list));
    return "no array of 64-bit integers holds all of them";
  }
  if (list.every((entry) => typeof entry === "number")) {
    return stageArray(core, Float64Array.from(list));
  }
  return "an array to write holds numbers, integers or strings only";
}
