/**
 * Loads the module of formulas and local PVs, when a page uses the first of them, and passes values
 * between it and the client's module.
 */

import { initSync, input_selection, Page, type InitOutput } from "../../pkg/pvwire_page.js";
import type { PutValue, WasmSource } from "../types.js";
import type { Wasm } from "./core.js";
import { Needs } from "./elements.js";
import { Loader } from "./loader.js";
import type { Slot } from "./slot.js";
import { stageValue } from "./value.js";

export { Page } from "../../pkg/pvwire_page.js";

const loader = new Loader<InitOutput>(
  initSync,
  () => new URL("../../pkg/pvwire_page_bg.wasm", import.meta.url),
);

export const loadPage = (source: WasmSource | Promise<WasmSource> | undefined): Promise<void> =>
  loader.load(source);

/** What is read of the PVs in formulas, only when the module is loaded. */
export const inputSelection = input_selection;

/** The memory of the page's module; it moves when it grows. */
const memoryOf = (): ArrayBuffer => (loader.loaded as InitOutput).memory.buffer;

/** How results are passed on; the numbers of `page/src/lib.rs`. */
export const Result = { number: 0, integer: 1, text: 2, numbers: 3, texts: 4, table: 5 } as const;

/** Every part of a PV. */
const ALL_PARTS = 0xffffffff;

/** The bits of an array's first number that contain its type. */
const TYPE = 0xff;

/** Elements of a result's summary, see `page/src/lib.rs`. */
export const Summary = {
  kind: 0,
  number: 1,
  type: 2,
  precision: 3,
  severity: 4,
  status: 5,
  seconds: 6,
  nanoseconds: 7,
  writable: 8,
  hasMessage: 9,
  hasLabels: 10,
} as const;

/** The memory of the page's module as numbers. */
let shownMemory = new Float64Array();

/** Reads an element of the result's summary. */
export function summaryOf(page: Page): (element: number) => number {
  const buffer = memoryOf();
  if (shownMemory.buffer !== buffer) shownMemory = new Float64Array(buffer);
  const view = shownMemory;
  const at = page.summary() >>> 3;
  return (element) => view[at + element] as number;
}

/** An array that was written to a local PV, in the type in which it was written. */
export interface Written {
  readonly bytes: Uint8Array;
  readonly type: number;
}

/** Shows the page's result in a slot. `written` replaces an array of doubles. */
export function showResult(slot: Slot, page: Page, written?: Written): void {
  const { core } = slot.wasm;
  const of = summaryOf(page);
  const number = of(Summary.number);
  let type = of(Summary.type);
  const precision = of(Summary.precision);
  const severity = of(Summary.severity);
  const status = of(Summary.status);
  const seconds = of(Summary.seconds);
  const nanoseconds = of(Summary.nanoseconds);
  const isWritable = of(Summary.writable) === 1;
  const hasMessage = of(Summary.hasMessage) === 1;
  const hasLabels = of(Summary.hasLabels) === 1;
  switch (of(Summary.kind)) {
    case Result.number:
      core.value_number(number);
      break;
    case Result.integer:
      core.value_int64(page.integer());
      break;
    case Result.text:
      core.value_text(page.text());
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
      core.value_texts(page.texts());
      break;
    case Result.table: {
      const labels = page.texts();
      core.value_number(0);
      slot.keepStructure({
        labels,
        value: Object.fromEntries(labels.map((label) => [label, []])),
      });
    }
  }
  const message = hasMessage ? page.message() : "";
  const texts = hasLabels ? [message, ...page.texts()] : [message];
  core.show(slot.index, type, precision, severity, status, seconds, nanoseconds, isWritable, texts);
}

/** A PV that formulas read: its number in the page's module, and its slot. */
export interface InputSlot {
  readonly number: number;
  readonly slot: Slot;
}

/** Passes the present states of PVs to formulas. `program` is that of `inputSelection`. */
export function readInputs(
  page: Page,
  wasm: Wasm,
  program: number,
  inputs: readonly InputSlot[],
): void {
  if (inputs.length === 0) return;
  const { core, memory } = wasm;
  const entries = new Uint32Array(3 * inputs.length);
  const records = new Float64Array(4 * inputs.length);
  const arrays: Uint8Array[] = [];
  let elements = 0;
  inputs.forEach(({ number, slot }, nth) => {
    entries[3 * nth] = program;
    entries[3 * nth + 1] = slot.index;
    entries[3 * nth + 2] = ALL_PARTS;
    records[4 * nth] = number;
    const array = core.has_array(slot.index) ? slot.elements(Needs.elements) : undefined;
    if (array === undefined) return;
    const [type, count, bytes] = array;
    records.set([type & TYPE, count, bytes.length], 4 * nth + 1);
    arrays.push(bytes);
    elements += bytes.length;
  });
  const place = core.entries(entries.length);
  new Uint32Array(memory.buffer, place, entries.length).set(entries);
  // The relay's silence shows in the formula itself.
  const outcome = core.execute(false, inputs.length, NaN);
  const [cells = 0, count = 0, text = 0, textBytes = 0] = new Uint32Array(
    memory.buffer,
    outcome,
    4,
  );
  const cellsAt = page.reserve_cells(records.length + count);
  const bytesAt = page.reserve_bytes(textBytes + elements);
  const to = new Uint8Array(memoryOf());
  new Float64Array(to.buffer, cellsAt, records.length).set(records);
  to.set(new Uint8Array(memory.buffer, cells, 8 * count), cellsAt + records.byteLength);
  to.set(new Uint8Array(memory.buffer, text, textBytes), bytesAt);
  let at = bytesAt + textBytes;
  for (const bytes of arrays) {
    to.set(bytes, at);
    at += bytes.length;
  }
  page.read_inputs(inputs.length, textBytes);
}

/** Stages a value that an application writes; returns the reason if it is invalid. */
export function stageWritten(page: Page, value: PutValue): string | undefined {
  // Other PVs have no booleans to write.
  if (typeof value !== "boolean") return stageValue(page, value);
  page.value_boolean(value);
  return undefined;
}
