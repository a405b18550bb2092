/** How does a structure in a message become an object? The module has checked the message before. */

import { numericArray, TYPES } from "./elements.js";
import type { PvField } from "./types.js";

const decoder = new TextDecoder();

const STRING = 12;
const BOOLEAN = 13;
const STRUCTURE = 14;
const UNION = 15;
const ANY = 16;

/** Places of a Node's fields in its vtable; see `frame.fbs`. */
const Field = { name: 0, typeId: 1, type: 2, array: 3, count: 4, data: 5, text: 6, fields: 7 };

/** Reads the structure whose table stands at `at`. Numeric arrays stay where they are. */
export function readStructure(buffer: ArrayBuffer, at: number): PvField {
  return new Reader(buffer).node(at);
}

/** Enough of flatbuffers to read one kind of table. */
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
      case 0:
        return null;
      case STRING: {
        const texts = this.#vector(at, Field.text).map((entry) => this.#text(entry));
        return isArray ? texts : (texts[0] ?? "");
      }
      case STRUCTURE:
      case UNION:
      case ANY: {
        const fields = this.#vector(at, Field.fields);
        if (isArray) return fields.map((field) => this.node(field));
        return this.#compound(type, fields);
      }
      default:
        return this.#numeric(at, type, isArray);
    }
  }

  #compound(type: number, fields: readonly number[]): PvField {
    if (type === STRUCTURE) {
      return Object.fromEntries(fields.map((field) => [this.#name(field), this.node(field)]));
    }
    const held = fields[0];
    if (held === undefined) return null;
    if (type === ANY) return this.node(held);
    return { selected: this.#name(held), value: this.node(held) };
  }

  #numeric(at: number, type: number, isArray: boolean): PvField {
    const count = this.#place(at, Field.count, (place) => this.#view.getUint32(place, true), 0);
    const start = this.#place(at, Field.data, (place) => this.#follow(place) + 4, 0);
    const array = numericArray(this.#buffer, start, count, TYPES[type] ?? "Unknown");
    if (isArray) return array;
    return type === BOOLEAN ? array[0] === 1 : (array[0] ?? null);
  }

  #name(at: number): string {
    return this.#place(at, Field.name, (place) => this.#text(this.#follow(place)), "");
  }

  #byte(at: number, field: number): number {
    return this.#place(at, field, (place) => this.#view.getUint8(place), 0);
  }

  /** What stands in a field, or what holds when it is left out. */
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

  /** Where the entries of a vector of strings or tables stand. */
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
