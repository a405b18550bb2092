/** The state of one PV that JavaScript keeps in addition to the module's state. */

import type { Wasm } from "./core.js";
import { Needs, numericArray, TYPES } from "./elements.js";
import { isFields, isUnion, readStructure } from "./node.js";
import type { Elements, SlotData } from "./results.js";
import type { NumericArray, PvField, PvStructure, PvType } from "../types.js";

/** The kind of the value; the numbers of `store.rs`. */
export const Kind = {
  none: 0,
  number: 1,
  text: 2,
  array: 3,
  textArray: 4,
  largeInteger: 5,
  unknown: 6,
  structure: 7,
} as const;

/** Maximum number of changes of a structure that are kept. */
const MAX_PARTS = 16;

/** Number of an array's elements that its text shows. */
const SHOWN = 10;

/** Flag of an array whose characters are one text. */
const TEXT = 1 << 8;

/** Flag of a structure that the module holds. */
const RETAINED = 1 << 9;

interface Bytes {
  readonly buffer: ArrayBuffer;
  readonly offset: number;
  readonly count: number;
  readonly type: PvType;
}

/** One PV: its index in the module, and its arrays and structures, which stay in JavaScript. */
export class Slot implements SlotData {
  readonly id: string;
  #needsRelay: boolean;
  #bytes: Bytes | undefined;
  #array: NumericArray | undefined;
  #doubles: Float64Array | undefined;
  #structure: PvField | undefined;
  /** Parts of a structure: the whole structure or changed fields, then further changed fields. */
  #parts: { buffer: ArrayBuffer; offset: number; isPart: boolean }[] = [];
  /** How many of them were read here, and how many the module holds. */
  #read = 0;
  #retained = 0;

  constructor(
    readonly wasm: Wasm,
    readonly name: string,
    readonly index: number,
    /** Whether it belongs to the last answered Get. */
    readonly answer = false,
  ) {
    this.#needsRelay = !name.startsWith("loc://");
    this.id = name.includes("://") || name.startsWith("=") ? name : `ca://${name}`;
  }

  /** Whether its values come from the relay, those of a formula through its inputs. */
  get needsRelay(): boolean {
    return this.#needsRelay;
  }

  set needsRelay(needs: boolean) {
    if (this.#needsRelay === needs) return;
    this.#needsRelay = needs;
    this.wasm.core.needs_relay(this.index, needs);
  }

  /** An array or a structure arrived: its elements are not copied. */
  keepArray(buffer: ArrayBuffer, offset: number, count: number, type: number): void {
    const name = TYPES[type] ?? "Unknown";
    this.#bytes = { buffer, offset, count, type: name };
    this.#array = undefined;
    this.#doubles = undefined;
    if (name !== "Structure" || count > 0) {
      this.#structure = undefined;
      this.#forget();
      if (name !== "Structure") return;
    } else if (this.#parts.length >= MAX_PARTS) {
      // Replaced structures must not accumulate.
      this.structure();
      this.#hold();
      this.#forget();
    }
    this.#parts.push({ buffer, offset, isPart: count === 0 });
  }

  /** Whether it is an array of characters. */
  get hasCharacters(): boolean {
    return /^U?Int8$/.test((this.#bytes ?? NO_BYTES).type);
  }

  /** The page itself made a structure. */
  keepStructure(structure: PvStructure): void {
    this.#structure = structure;
    this.#forget();
  }

  #forget(): void {
    this.#parts = [];
    this.#read = 0;
    this.#retained = 0;
  }

  /** Passes the structure to the module. */
  #hold(): void {
    for (const { buffer, offset, isPart } of this.#parts.slice(this.#retained)) {
      this.wasm.hold(this.answer, this.index, buffer, offset, isPart);
    }
    this.#retained = this.#parts.length;
  }

  array(): NumericArray {
    const { buffer, offset, count, type } = this.#bytes ?? NO_BYTES;
    this.#array ??= numericArray(buffer, offset, count, type);
    return this.#array;
  }

  /** NAME.FIELD$ is EPICS's way to ask for a long string. */
  get isLongString(): boolean {
    return this.id.endsWith("$");
  }

  /** Whether the metadata say that the characters of the array are one text. */
  hasTextForm(): boolean {
    return this.wasm.core.is_text(this.answer, this.index);
  }

  /** The first elements of the array as doubles; 0 for all. */
  doubles(length: number): Float64Array {
    const array = this.array();
    const count = length === 0 ? array.length : Math.min(length, array.length);
    if (this.#doubles?.length !== count) {
      const some = count < array.length ? array.subarray(0, count) : array;
      this.#doubles =
        some instanceof Float64Array ? some : Float64Array.from(some as ArrayLike<number>, Number);
    }
    return this.#doubles;
  }

  /** What the module needs of the array or structure; `undefined` if there never was one. */
  elements(needs: number): Elements | undefined {
    if (this.#structure !== undefined || this.#bytes?.type === "Structure") {
      return this.#structureElements(needs);
    }
    return this.#bytes && this.#arrayElements(needs, this.#bytes);
  }

  #arrayElements(needs: number, { count, type }: Bytes): Elements {
    const { BYTES_PER_ELEMENT: size, buffer, byteOffset } = this.array();
    const { hasCharacters } = this;
    const isText = hasCharacters && (this.isLongString || (count > SHOWN && this.hasTextForm()));
    const isWhole =
      (needs & Needs.elements) !== 0 ||
      isText ||
      (hasCharacters && (needs & Needs.characters) !== 0);
    const bytes = (isWhole ? count : Math.min(count, SHOWN)) * size;
    const flag = isText ? TEXT : 0;
    return [TYPES.indexOf(type) | flag, count, new Uint8Array(buffer, byteOffset, bytes)];
  }

  /** The same of a structure: the number of structures in a list plus one. */
  #structureElements(needs: number): Elements {
    if ((needs & Needs.structure) !== 0) {
      this.#hold();
      return [RETAINED, 0, new Uint8Array()];
    }
    const structure = this.structure();
    const count = Array.isArray(structure) ? structure.length + 1 : 0;
    return [TYPES.indexOf("Structure"), count, new Uint8Array()];
  }

  /** A structure, or the elements of an array of structures. */
  structure(): PvField {
    for (const { buffer, offset } of this.#parts.slice(this.#read)) {
      const part = readStructure(buffer, offset);
      // Changed fields apply to a structure that was received as a whole before.
      const isMore = hasFields(part) && hasFields(this.#structure);
      this.#structure = isMore ? { ...(this.#structure as PvStructure), ...part } : part;
    }
    this.#read = this.#parts.length;
    return this.#structure ?? null;
  }
}

/** Whether it is a structure with its fields. */
const hasFields = (field: PvField | undefined): field is PvStructure =>
  isFields(field) && !isUnion(field);

const NO_BYTES = { buffer: new ArrayBuffer(0), offset: 0, count: 0, type: "UInt8" } as const;
