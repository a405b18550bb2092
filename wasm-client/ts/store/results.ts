/**
 * Lets the module execute selections, any number in one call, and reads the results: 64-bit cells in
 * the order of the selected fields, and one text. `execution.rs` is the other half.
 */

import { constants, type Core } from "../../pkg/pvwire_wasm.js";
import type { NumericArray, PvField } from "../types.js";
import { copiedArray, TYPES } from "./elements.js";
import { isFields } from "./node.js";

/** A selection that the module executes. */
export interface Program {
  /** The program's number in the module. */
  readonly number: number;
  /** What it reads of arrays: `Needs`. */
  readonly needs: number;
}

/** Type with flags, number of elements, and bytes of an array for the module. */
export type Elements = readonly [type: number, count: number, bytes: Uint8Array];

/** What JavaScript keeps of a slot. */
export interface SlotData {
  readonly id: string;
  readonly index: number;
  array: () => NumericArray;
  doubles: (length: number) => Float64Array;
  structure: () => PvField;
  elements: (needs: number) => Elements | undefined;
}

/** What a cell contains that is not a number; the numbers of `select/execute/results.rs`. */
const Cell = {
  notANumber: 0,
  null: 1,
  false: 2,
  true: 3,
  constant: 4,
  text: 5,
  integer: 6,
  texts: 7,
  array: 8,
  structure: 9,
  structures: 10,
  id: 11,
  doubles: 13,
  object: 15,
  list: 16,
  numbers: 17,
} as const;

/** Flag in an execution's first number: its slot has elements. */
const WITH_ELEMENTS = 0x80000000;

/** Flags of a watcher in a flush's list: its next result is made; it is to be made with elements. */
export const EXECUTED = 0x80000000;
export const WANTS_ELEMENTS = 0x40000000;
export const WATCHER = 0x3fffffff;

/** In a watcher's mask: it reads each result; its number may have been another's. */
export const ALWAYS = 1 << 30;
export const NEW = 1 << 31;

/** Texts of this length or longer have a separate cell for it. */
const LONG = (1 << 14) - 1;

/** The bits of a cell's upper half that contain its kind. */
const KIND = 31 << 14;
const TEXT_KIND = Cell.text << 14;
const NULL_KIND = Cell.null << 14;

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

let known: readonly string[] | undefined;

export class Results {
  /** The parts that changed of any slot in the last flush. */
  changed = 0;
  #core: Core;
  #memory: WebAssembly.Memory;
  /** Three numbers for each execution. */
  #entries = new Uint32Array(96);
  #count = 0;
  /** Three numbers for each execution that reads an array or a structure, and the bytes of these. */
  #records: number[] = [];
  #elements: Uint8Array[] = [];
  /** The module's memory. */
  #numbers = new Float64Array();
  #words = new Uint32Array();
  #bytes = new Uint8Array();
  /** The next cell. */
  #at = 0;
  #constants = (known ??= constants().split("\n"));
  /** The piece of the text that is decoded, and where it starts and ends. */
  #piece = "";
  #pieceStart = 0;
  #pieceEnd = 0;
  /** Address of the text, of the starts of its pieces that follow, and where these end. */
  #textAt = 0;
  #textBytes = 0;
  #byte = 0;
  #starts = 0;
  #startsEnd = 0;

  constructor(core: Core, memory: WebAssembly.Memory) {
    this.#core = core;
    this.#memory = memory;
  }

  /** Adds an execution of what `parts` affect. */
  add({ needs, number }: Program, slot: SlotData, parts: number): void {
    const at = 3 * this.#count++;
    if (at === this.#entries.length) {
      const larger = new Uint32Array(2 * at);
      larger.set(this.#entries);
      this.#entries = larger;
    }
    const entries = this.#entries;
    entries[at] = number;
    entries[at + 1] = slot.index;
    entries[at + 2] = parts;
    if (needs !== 0) this.#addElements(at, slot, needs);
  }

  /**
   * Carries out the executions; `next` then gives their results in order. `heardMs` is a silent relay's
   * last message, otherwise NaN.
   */
  run(heardMs: number, answer = false): void {
    const { length } = this.#records;
    const end = 3 * this.#count;
    const place = this.#core.entries(end + length);
    let elements = 0;
    if (length > 0) {
      let size = 0;
      for (const bytes of this.#elements) size += bytes.length;
      elements = this.#core.elements(size);
    }
    this.#view();
    this.#words.set(this.#entries.subarray(0, end), place >>> 2);
    if (length > 0) {
      this.#words.set(this.#records, (place >>> 2) + end);
      for (const bytes of this.#elements) {
        this.#bytes.set(bytes, elements);
        elements += bytes.length;
      }
      this.#records = [];
      this.#elements = [];
    }
    this.#open(this.#core.execute(answer, this.#count, heardMs) >>> 2);
    this.#count = 0;
  }

  /**
   * Starts a new flush. `reads` has a 1 for each watcher whose result was read since the last one.
   * Returns a watcher with its flags, then the parts that changed, for each that changed; `next` then
   * gives the results that were made, in order. The list is valid until the module is called again.
   */
  flush(heardMs: number, reads: number[]): Uint32Array {
    const place = this.#core.reads();
    this.#view();
    this.#bytes.set(reads, place);
    reads.fill(0);
    const outcome = this.#core.flush(heardMs) >>> 2;
    this.#open(outcome);
    const words = this.#words;
    const start = (words[outcome + 6] as number) >>> 2;
    this.changed = words[outcome + 8] as number;
    return words.subarray(start, start + (words[outcome + 7] as number));
  }

  /** Goes to the first of the results that the module has made. */
  #open(outcome: number): void {
    this.#view();
    const words = this.#words;
    this.#at = (words[outcome] as number) >>> 3;
    this.#textAt = words[outcome + 2] as number;
    this.#textBytes = words[outcome + 3] as number;
    this.#starts = (words[outcome + 4] as number) >>> 2;
    this.#startsEnd = this.#starts + (words[outcome + 5] as number);
    this.#byte = 0;
    this.#pieceEnd = -1;
  }

  /** The next field. A list of texts is `last` if it is equal. */
  next(slot: SlotData, last: unknown): unknown {
    const at = this.#at++;
    const number = this.#numbers[at] as number;
    if (!Number.isNaN(number)) return number;
    const word = this.#words[2 * at] as number;
    const high = this.#words[2 * at + 1] as number;
    if ((high & KIND) !== TEXT_KIND) return this.#other(slot, (high >>> 14) & 31, word, last);
    const length = high & LONG;
    const from = word - this.#pieceStart;
    return word < this.#pieceEnd && length < LONG
      ? this.#piece.substring(from, from + length)
      : this.#text(word, length);
  }

  /** Whether the next object is missing. */
  isMissing(): boolean {
    const high = this.#words[2 * this.#at++ + 1] as number;
    return (high & KIND) === NULL_KIND;
  }

  #other(slot: SlotData, kind: number, word: number, last: unknown): unknown {
    switch (kind) {
      case Cell.constant:
        return this.#constants[word];
      case Cell.null:
        return null;
      case Cell.false:
        return false;
      case Cell.true:
        return true;
      case Cell.notANumber:
        return NaN;
      case Cell.id:
        return slot.id;
      case Cell.integer:
        return BigInt(this.#text(word, (this.#words[2 * this.#at - 1] as number) & LONG));
      case Cell.texts:
        return this.#texts(slot, word, last);
      case Cell.array:
        return slot.array();
      case Cell.doubles:
        return slot.doubles(word);
      case Cell.structure: {
        const structure = slot.structure();
        return isFields(structure) ? structure : null;
      }
      case Cell.structures: {
        const structure = slot.structure();
        return Array.isArray(structure) ? structure : null;
      }
      case Cell.object:
        return this.#object(slot, word);
      case Cell.list:
        return Array.from({ length: word }, () => this.next(slot, null));
      case Cell.numbers: {
        const type = (this.#words[2 * this.#at - 1] as number) & LONG;
        const count = this.#numbers[this.#at++] as number;
        return copiedArray(this.#memory.buffer, word, count, TYPES[type] ?? "Unknown");
      }
      default:
        return undefined;
    }
  }

  /** An object that was made from an array or a structure, with its keys. */
  #object(slot: SlotData, count: number): object {
    const entries: [string, unknown][] = [];
    for (let nth = 0; nth < count; nth += 1) {
      const key = this.next(slot, null) as string;
      entries.push([key, this.next(slot, null)]);
    }
    // A key may be `__proto__`.
    return Object.fromEntries(entries);
  }

  #text(start: number, short: number): string {
    const length = short < LONG ? short : (this.#numbers[this.#at++] as number);
    while (start >= this.#pieceEnd) {
      // Also for an empty text at the end of the last piece.
      if (!this.#nextPiece()) return "";
    }
    const from = start - this.#pieceStart;
    return this.#piece.substring(from, from + length);
  }

  /** A substring keeps its whole text in memory: the text is decoded piece by piece. */
  #nextPiece(): boolean {
    if (this.#byte >= this.#textBytes) return false;
    const isLast = this.#starts >= this.#startsEnd;
    const end = isLast ? this.#textBytes : (this.#words[this.#starts] as number);
    const from = this.#textAt + this.#byte;
    this.#pieceStart = Math.max(this.#pieceEnd, 0);
    this.#piece = decoder.decode(this.#bytes.subarray(from, this.#textAt + end));
    this.#pieceEnd = this.#pieceStart + this.#piece.length;
    this.#byte = end;
    this.#starts += 1;
    return true;
  }

  #texts(slot: SlotData, count: number, last: unknown): readonly string[] {
    const texts: string[] = [];
    for (let nth = 0; nth < count; nth += 1) texts.push(this.next(slot, null) as string);
    const same =
      Array.isArray(last) && last.length === count && texts.every((text, at) => text === last[at]);
    return same ? (last as readonly string[]) : texts;
  }

  #addElements(at: number, slot: SlotData, needs: number): void {
    const elements = slot.elements(needs);
    if (elements === undefined) return;
    this.#entries[at] = (this.#entries[at] as number) | WITH_ELEMENTS;
    const [type, count, bytes] = elements;
    this.#records.push(type, count, bytes.length);
    this.#elements.push(bytes);
  }

  /** Memory that grows is moved. */
  #view(): void {
    const { buffer } = this.#memory;
    if (this.#bytes.buffer === buffer) return;
    this.#numbers = new Float64Array(buffer);
    this.#words = new Uint32Array(buffer);
    this.#bytes = new Uint8Array(buffer);
  }
}
