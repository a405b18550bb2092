/** Converts a structure in a message to an object. The module has already validated the message. */

import { numericArray, TYPES } from "./elements.js";
import { NodeField as Field, ValueType } from "../schema.js";
import type { PvField, PvStructure } from "../types.js";

const decoder = new TextDecoder();

const unions = new WeakSet();

/** Whether an object that was read here is a union, not a structure with the same fields. */
export const isUnion = (of: object): boolean => unions.has(of);

/** Reads the structure whose table is at `at`. Numeric arrays are not copied. */
export function readStructure(buffer: ArrayBuffer, at: number): PvField {
  return new Reader(buffer).node(at);
}

/** Reads one kind of table; contains only the parts of flatbuffers that this needs. */
class Reader {
  #buffer: ArrayBuffer;
  #view: DataView;

  constructor(buffer: ArrayBuffer) {
    this.#buffer = buffer;
    this.#view = new DataView(buffer);
  }

  node(at: number): PvField {
    const type = this.#byte(at, Field.type);
    const isArray = this.#byte(at, Field.array) === 1;
    switch (type) {
      case ValueType.Unknown:
        return null;
      case ValueType.String: {
        const texts = this.#vector(at, Field.text).map((entry) => this.#text(entry));
        return isArray ? texts : (texts[0] ?? "");
      }
      case ValueType.Structure:
      case ValueType.Union:
      case ValueType.Any: {
        const fields = this.#vector(at, Field.fields);
        if (isArray) return fields.map((field) => this.node(field));
        return this.#compound(type, fields);
      }
      default:
        // The element size of an unknown type is unknown.
        return TYPES[type] === undefined ? null : this.#numeric(at, type, isArray);
    }
  }

  #compound(type: number, fields: readonly number[]): PvField {
    if (type === ValueType.Structure) {
      return Object.fromEntries(fields.map((field) => [this.#name(field), this.node(field)]));
    }
    const member = fields[0];
    if (member === undefined) return null;
    if (type === ValueType.Any) return this.node(member);
    const union = { selected: this.#name(member), value: this.node(member) };
    unions.add(union);
    return union;
  }

  #numeric(at: number, type: number, isArray: boolean): PvField {
    const count = this.#place(at, Field.count, (place) => this.#view.getUint32(place, true), 0);
    const start = this.#place(at, Field.data, (place) => this.#follow(place) + 4, 0);
    const array = numericArray(this.#buffer, start, count, TYPES[type] ?? "Unknown");
    if (isArray) return array;
    return type === ValueType.Boolean ? array[0] === 1 : (array[0] ?? null);
  }

  #name(at: number): string {
    return this.#place(at, Field.name, (place) => this.#text(this.#follow(place)), "");
  }

  #byte(at: number, field: number): number {
    return this.#place(at, field, (place) => this.#view.getUint8(place), 0);
  }

  /** The value of a field, or the default if it is absent. */
  #place<T>(at: number, field: number, read: (place: number) => T, absent: T): T {
    const vtable = at - this.#view.getInt32(at, true);
    const entry = 4 + 2 * field;
    if (entry >= this.#view.getUint16(vtable, true)) return absent;
    const offset = this.#view.getUint16(vtable + entry, true);
    return offset === 0 ? absent : read(at + offset);
  }

  #follow(place: number): number {
    return place + this.#view.getUint32(place, true);
  }

  /** The positions of the entries in a vector of strings or tables. */
  #vector(at: number, field: number): number[] {
    const vector = this.#place(at, field, (place) => this.#follow(place), 0);
    if (vector === 0) return [];
    const length = this.#view.getUint32(vector, true);
    return Array.from({ length }, (_, index) => this.#follow(vector + 4 + 4 * index));
  }

  #text(at: number): string {
    const length = this.#view.getUint32(at, true);
    return decoder.decode(new Uint8Array(this.#buffer, at + 4, length));
  }
}

/** Whether it is a structure or a union. */
export const isFields = (field: PvField | undefined): field is PvStructure =>
  typeof field === "object" &&
  field !== null &&
  !Array.isArray(field) &&
  !ArrayBuffer.isView(field);
