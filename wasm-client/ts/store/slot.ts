/** The state of one PV that JavaScript keeps in addition to the module's columns. */

import type { Columns, Wasm } from "./core.js";
import { numericArray, textOf, TYPES } from "./elements.js";
import { iso } from "./format.js";
import { isUnion, readStructure } from "./node.js";
import type { NumericArray, PvDisplay, PvField, PvStructure, PvType } from "../types.js";

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

/** Maximum number of unread changes of a structure. */
const MAX_PARTS = 16;

/** The display metadata of a PV, and the reason why a field does not exist. */
export interface Metadata extends PvDisplay {
  readonly missingField: string;
}

export const NO_METADATA: Metadata = {
  type: "Unknown",
  elementCount: 0,
  description: "",
  typeId: "",
  missingField: "",
  form: null,
  units: "",
  precision: null,
  choices: null,
  controlRange: null,
  displayRange: null,
  alarmRange: null,
  warningRange: null,
};

/** One PV: its index in the columns, and cached values from the module. */
export class Slot {
  readonly id: string;
  /** Whether its values come from the relay, those of a formula through its inputs. */
  needsRelay: boolean;
  #metadata = NO_METADATA;
  #metadataVersion = 0;
  #text = "";
  #texts: readonly string[] = [];
  #textVersion = -1;
  #sinceMs = NaN;
  #since: string | null = null;
  #bytes: { buffer: ArrayBuffer; offset: number; count: number; type: PvType } | undefined;
  #array: NumericArray | undefined;
  #structure: PvField | undefined;
  /**
   * Unread parts of a structure: the whole structure or changed fields, then further changed
   * fields.
   */
  #parts: { buffer: ArrayBuffer; offset: number }[] = [];

  constructor(
    readonly wasm: Wasm,
    readonly name: string,
    readonly index: number,
    /** Whether it belongs to the last answered Get. */
    readonly answer = false,
  ) {
    this.needsRelay = !name.startsWith("loc://");
    this.id = name.includes("://") || name.startsWith("=") ? name : `ca://${name}`;
  }

  metadata(columns: Columns): Metadata {
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
      this.#since = iso(sinceMs);
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

  /** An array or a structure arrived: its elements are not copied. */
  keepArray(buffer: ArrayBuffer, offset: number, count: number, type: number): void {
    const name = TYPES[type] ?? "Unknown";
    this.#bytes = { buffer, offset, count, type: name };
    this.#array = undefined;
    if (name !== "Structure") return;
    if (count > 0) {
      this.#structure = undefined;
      this.#parts = [];
    } else if (this.#parts.length >= MAX_PARTS) {
      // The PV has no reader: replaced structures must not accumulate.
      this.structure();
    }
    this.#parts.push({ buffer, offset });
  }

  /** Type of the array's elements. */
  get elementType(): PvType {
    return (this.#bytes ?? NO_BYTES).type;
  }

  /** The page itself made a structure. */
  keepStructure(structure: PvStructure): void {
    this.#structure = structure;
    this.#parts = [];
  }

  array(): NumericArray {
    const { buffer, offset, count, type } = this.#bytes ?? NO_BYTES;
    this.#array ??= numericArray(buffer, offset, count, type);
    return this.#array;
  }

  /** The text in an array of characters; `null` if it is another array. */
  characters(): string | null {
    if (!/^U?Int8$/.test(this.elementType)) return null;
    return textOf(this.array() as Uint8Array | Int8Array);
  }

  /** A structure, or the elements of an array of structures. */
  structure(): PvField {
    for (const { buffer, offset } of this.#parts) {
      const part = readStructure(buffer, offset);
      // Changed fields apply to a structure that was received as a whole before.
      const isMore = hasFields(part) && hasFields(this.#structure);
      this.#structure = isMore ? { ...(this.#structure as PvStructure), ...part } : part;
    }
    this.#parts = [];
    return this.#structure ?? null;
  }

  userTag(): number {
    return this.wasm.core.user_tag(this.answer, this.index);
  }

  /** The alarm message as sent by the server, if any. */
  alarmMessage(): string {
    return this.wasm.core.alarm_message(this.answer, this.index);
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

  #readMetadata(): Metadata {
    const { core } = this.wasm;
    const numbers = core.metadata_numbers(this.answer, this.index);
    const [units = "", description = "", typeId = "", form = "", missingField = "", ...choices] =
      core.metadata_texts(this.answer, this.index);
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
      typeId,
      missingField,
      form: form === "" ? null : form,
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

/** Whether it is a structure or a union. */
export const isFields = (field: PvField | undefined): field is PvStructure =>
  typeof field === "object" &&
  field !== null &&
  !Array.isArray(field) &&
  !ArrayBuffer.isView(field);

/** Whether it is a structure with its fields. */
const hasFields = (field: PvField | undefined): field is PvStructure =>
  isFields(field) && !isUnion(field);

const NO_BYTES = { buffer: new ArrayBuffer(0), offset: 0, count: 0, type: "UInt8" } as const;
