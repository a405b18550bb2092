/** What does JavaScript keep of one PV beside the module's columns? */

import type { Columns, Wasm } from "./core.js";
import type { NumericArray, PvDisplay, PvType } from "./types.js";

/** By the wire's numbers. */
export const TYPES: readonly PvType[] = [
  "Unknown",
  "Float64",
  "Float32",
  "Int8",
  "UInt8",
  "Int16",
  "UInt16",
  "Int32",
  "UInt32",
  "Int64",
  "UInt64",
  "Enum",
  "String",
  "Boolean",
];

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

/** What the value is; the numbers of `store.rs`. */
export const Kind = {
  none: 0,
  number: 1,
  text: 2,
  array: 3,
  textArray: 4,
  largeInteger: 5,
  unknown: 6,
} as const;

const NO_METADATA: PvDisplay = {
  type: "Unknown",
  elementCount: 0,
  description: "",
  units: "",
  precision: null,
  choices: null,
  controlRange: null,
  displayRange: null,
  alarmRange: null,
  warningRange: null,
};

/** One PV: its place in the columns, and what came over the boundary once and is kept. */
export class Slot {
  readonly id: string;
  #metadata = NO_METADATA;
  #metadataVersion = 0;
  #text = "";
  #texts: readonly string[] = [];
  #textVersion = -1;
  #sinceMs = NaN;
  #since: string | null = null;
  #bytes: { buffer: ArrayBuffer; offset: number; count: number; type: PvType } | undefined;
  #array: NumericArray | undefined;

  constructor(
    readonly wasm: Wasm,
    readonly name: string,
    readonly index: number,
    /** Whether it is one of the last answered Get's. */
    readonly answer = false,
  ) {
    this.id = name.includes("://") ? name : `ca://${name}`;
  }

  metadata(columns: Columns): PvDisplay {
    const version = columns.metadataVersion[this.index] as number;
    if (version !== this.#metadataVersion) {
      this.#metadataVersion = version;
      this.#metadata = version === 0 ? NO_METADATA : this.#readMetadata();
    }
    return this.#metadata;
  }

  /** When the connection state began. */
  since(columns: Columns): string | null {
    const sinceMs = columns.sinceMs[this.index] as number;
    if (!Object.is(sinceMs, this.#sinceMs)) {
      this.#sinceMs = sinceMs;
      this.#since = Number.isNaN(sinceMs) ? null : new Date(sinceMs).toISOString();
    }
    return this.#since;
  }

  text(columns: Columns): string {
    this.#readTexts(columns);
    return this.#text;
  }

  texts(columns: Columns): readonly string[] {
    this.#readTexts(columns);
    return this.#texts;
  }

  /** An array came: its elements stay where they are. */
  keepArray(buffer: ArrayBuffer, offset: number, count: number, type: number): void {
    this.#bytes = { buffer, offset, count, type: TYPES[type] ?? "Unknown" };
    this.#array = undefined;
  }

  array(): NumericArray {
    if (this.#array === undefined) {
      const { buffer, offset, count, type } = this.#bytes ?? NO_BYTES;
      const constructor = ARRAYS[type] ?? Uint8Array;
      const size = constructor.BYTES_PER_ELEMENT;
      // Relays align elements; bytes that aren't can't be viewed in place.
      this.#array =
        offset % size === 0
          ? new constructor(buffer, offset, count)
          : new constructor(buffer.slice(offset, offset + count * size));
    }
    return this.#array;
  }

  #readTexts(columns: Columns): void {
    const version = columns.valueVersion[this.index] as number;
    if (version === this.#textVersion) return;
    this.#textVersion = version;
    const { core } = this.wasm;
    if (columns.kind[this.index] === Kind.textArray) {
      this.#texts = core.texts(this.answer, this.index);
    } else {
      this.#text = core.text(this.answer, this.index);
    }
  }

  #readMetadata(): PvDisplay {
    const { core } = this.wasm;
    const numbers = core.metadata_numbers(this.answer, this.index);
    const [units = "", description = "", ...choices] = core.metadata_texts(this.answer, this.index);
    const number = (at: number): number | null => {
      const value = numbers[at] as number;
      return Number.isNaN(value) ? null : value;
    };
    const range = (at: number): { min: number | null; max: number | null } | null => {
      const [min, max] = [number(at), number(at + 1)];
      return min === null && max === null ? null : { min, max };
    };
    const type = TYPES[numbers[0] as number] ?? "Unknown";
    return {
      type,
      elementCount: numbers[1] as number,
      description,
      units,
      precision: number(2),
      choices: type === "Enum" ? choices : null,
      displayRange: range(3),
      controlRange: range(5),
      warningRange: range(7),
      alarmRange: range(9),
    };
  }
}

const NO_BYTES = { buffer: new ArrayBuffer(0), offset: 0, count: 0, type: "UInt8" } as const;
