/**
 * Loads the module of formulas and local PVs, when a page uses the first of them, and passes values
 * between it and the client's module.
 */

import type { Core } from "../../pkg/pvwire_wasm.js";
import { initSync, Page, type InitOutput } from "../../pkg/pvwire_page.js";
import { ValueType } from "../schema.js";
import type { NumericArray, PutValue, WasmSource } from "../types.js";
import type { Columns } from "./core.js";
import { textOf, TYPES } from "./elements.js";
import { Loader } from "./loader.js";
import { Kind, type Slot } from "./slot.js";
import { stageValue } from "./value.js";

export { Page } from "../../pkg/pvwire_page.js";

const loader = new Loader<InitOutput>(
  initSync,
  () => new URL("../../pkg/pvwire_page_bg.wasm", import.meta.url),
);

export const loadPage = (source: WasmSource | Promise<WasmSource> | undefined): Promise<void> =>
  loader.load(source);

/** Kinds of results; the numbers of `page/src/lib.rs`. */
const Result = {
  number: 0,
  integer: 1,
  boolean: 2,
  text: 3,
  enum: 4,
  numbers: 5,
  texts: 6,
  table: 7,
} as const;

const INT64_MIN = -(2n ** 63n);
const INT64_END = 2n ** 63n;

/** An array that was written to a local PV, in the type in which it was written. */
export interface Written {
  readonly bytes: Uint8Array;
  readonly type: number;
}

/** Shows the page's result in a slot. `written` replaces an array of doubles. */
export function showResult(slot: Slot, page: Page, writable: boolean, written?: Written): void {
  const { core } = slot.wasm;
  let type: number = ValueType.Float64;
  let precision = -1;
  let choices: string[] = [];
  switch (page.kind()) {
    case Result.number: {
      const number = page.number();
      core.value_number(number);
      if (writable) precision = digitsOf(number);
      break;
    }
    case Result.integer: {
      type = ValueType.Int64;
      const number = page.number();
      if (Number.isSafeInteger(number)) core.value_number(number);
      else core.value_int64(page.integer());
      break;
    }
    case Result.boolean:
      type = ValueType.Boolean;
      core.value_number(page.number());
      break;
    case Result.text:
      type = ValueType.String;
      core.value_text(page.text());
      break;
    case Result.enum:
      type = ValueType.Enum;
      core.value_number(page.number());
      choices = page.texts();
      break;
    case Result.numbers: {
      const numbers = page.numbers();
      const { buffer, byteOffset } = written?.bytes ?? numbers;
      type = written?.type ?? type;
      // The elements stay in JavaScript.
      core.value_array(type, numbers.length, new Uint8Array());
      slot.keepArray(buffer as ArrayBuffer, byteOffset, numbers.length, type);
      break;
    }
    case Result.texts:
      type = ValueType.String;
      core.value_texts(page.texts());
      break;
    case Result.table: {
      type = ValueType.Structure;
      const labels = page.texts();
      core.value_number(0);
      slot.keepStructure({
        labels,
        value: Object.fromEntries(labels.map((label) => [label, []])),
      });
    }
  }
  const message = page.severity() === 0 ? "" : page.message();
  core.show(
    slot.index,
    type,
    precision,
    page.severity(),
    page.seconds(),
    page.nanoseconds(),
    writable,
    [message, ...choices],
  );
}

/** Decimal places of the shortest text that reads back as the same number. */
function digitsOf(value: number): number {
  const [, places = ""] = /\.(\d+)$/.exec(String(value)) ?? [];
  return places.length;
}

/** Passes the present value of a slot, which must have one, to an input of formulas. */
export function setInput(slot: Slot, columns: Columns, page: Page, input: number): void {
  const { index } = slot;
  const severity = columns.severity[index] as number;
  const seconds = columns.seconds[index] as number;
  const nanoseconds = columns.nanoseconds[index] as number;
  const { core } = slot.wasm;
  const [type = 0, , , min = NaN, max = NaN] = core.metadata_numbers(false, index);
  stageSlot(slot, columns, page, type);
  const message = severity === 0 ? "" : core.alarm_message(false, index);
  page.set_input(input, severity, message, seconds, nanoseconds, min, max);
}

function stageSlot(slot: Slot, columns: Columns, page: Page, type: number): void {
  const { index } = slot;
  const { core } = slot.wasm;
  const number = columns.value[index] as number;
  switch (columns.kind[index]) {
    case Kind.number:
      // After five other texts.
      if (type === ValueType.Enum)
        page.value_enum(number, core.metadata_texts(false, index).slice(5));
      else if (type === ValueType.Boolean) page.value_boolean(number !== 0);
      else if (isInteger(type) && Number.isInteger(number)) page.value_integer(BigInt(number));
      else page.value_number(number);
      break;
    case Kind.largeInteger:
      stageInteger(page, BigInt(core.text(false, index)));
      break;
    case Kind.text:
      page.value_text(core.text(false, index));
      break;
    case Kind.textArray:
      page.value_texts(core.texts(false, index));
      break;
    case Kind.array: {
      const array = slot.array();
      const isText = slot.hasCharacters && (slot.isLongString || slot.hasTextForm());
      if (isText) page.value_text(textOf(array as Uint8Array | Int8Array));
      else page.value_numbers(toNumbers(array));
      break;
    }
    default:
      // A structure is not a number.
      page.value_number(NaN);
  }
}

const isInteger = (type: number): boolean => /^U?Int/.test(TYPES[type] ?? "");

const toNumbers = (array: NumericArray | readonly (number | bigint)[]): Float64Array =>
  array instanceof Float64Array
    ? array
    : Float64Array.from(array as ArrayLike<number | bigint>, Number);

function stageInteger(page: Page, value: bigint): void {
  if (value >= INT64_MIN && value < INT64_END) page.value_integer(value);
  else page.value_number(Number(value));
}

/** Stages a value that an application writes; returns the reason if it is invalid. */
export function stageWritten(core: Core, page: Page, value: PutValue): string | undefined {
  const problem = stageValue(core, value);
  if (problem !== undefined) return problem;
  switch (typeof value) {
    case "number":
      // As text, 3 is "3" in JavaScript, but the double 3 is "3.0" in Java.
      if (Number.isSafeInteger(value) && !Object.is(value, -0)) page.value_integer(BigInt(value));
      else page.value_number(value);
      break;
    case "boolean":
      page.value_boolean(value);
      break;
    case "bigint":
      stageInteger(page, value);
      break;
    case "string":
      page.value_text(value);
      break;
    default:
      if (typeof value[0] === "string") page.value_texts(value as string[]);
      else page.value_numbers(toNumbers(value as NumericArray));
  }
  return undefined;
}
