/** Writes flatbuffers for the fake relay, parents first. */

/** An object that a table refers to. */
export interface Part {
  /** Writes it and returns its position. */
  write: (out: Out) => number;
}

interface Inline {
  readonly size: 1 | 2 | 4 | 8;
  readonly put: (view: DataView, at: number) => void;
}

export type Field = Inline | Part | undefined;

export const u8 = (value: number): Inline => ({
  size: 1,
  put: (view, at) => {
    view.setUint8(at, value);
  },
});
export const bool = (value: boolean): Inline => u8(value ? 1 : 0);
export const i16 = (value: number): Inline => ({
  size: 2,
  put: (view, at) => {
    view.setInt16(at, value, true);
  },
});
export const u32 = (value: number): Inline => ({
  size: 4,
  put: (view, at) => {
    view.setUint32(at, value, true);
  },
});
export const i64 = (value: bigint): Inline => ({
  size: 8,
  put: (view, at) => {
    view.setBigInt64(at, BigInt.asIntN(64, value), true);
  },
});
export const f64 = (value: number): Inline => ({
  size: 8,
  put: (view, at) => {
    view.setFloat64(at, value, true);
  },
});

/** A byte buffer that grows as it is written. */
export class Out {
  #bytes = new Uint8Array(1024);
  view = new DataView(this.#bytes.buffer);
  #length = 0;

  /** Reserves this many bytes at an offset that is a multiple of `align` after adding `ahead`. */
  room(bytes: number, align: number, ahead = 0): number {
    const at = Math.ceil((this.#length + ahead) / align) * align - ahead;
    this.#length = at + bytes;
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(2 * this.#length);
      larger.set(this.#bytes);
      this.#bytes = larger;
      this.view = new DataView(larger.buffer);
    }
    return at;
  }

  copy(at: number, bytes: Uint8Array): void {
    this.#bytes.set(bytes, at);
  }

  finish(): ArrayBuffer {
    return this.#bytes.slice(0, Math.ceil(this.#length / 8) * 8).buffer;
  }
}

/** Fields of a table by the names that the schema gives their ids. */
export type Fields<Ids> = { readonly [Name in keyof Ids]?: Field };

/** A table: the ids of its fields, and the fields that are set. */
export function table<Ids extends Readonly<Record<string, number>>>(
  fieldIds: Ids,
  fields: Fields<Ids>,
): Part {
  return {
    write: (out) => {
      const present = Object.entries<Field>(fields).flatMap(([name, field]) =>
        field === undefined ? [] : [{ id: fieldIds[name] as number, field }],
      );
      const ids = 1 + Math.max(-1, ...present.map(({ id }) => id));
      const vtable = out.room(4 + 2 * ids, 2);
      let size = 4;
      const placed = present.map(({ id, field }) => {
        const bytes = "put" in field ? field.size : 4;
        const offset = Math.ceil(size / bytes) * bytes;
        size = offset + bytes;
        return { id, field, offset };
      });
      const at = out.room(size, 8);
      out.view.setInt32(at, at - vtable, true);
      out.view.setUint16(vtable, 4 + 2 * ids, true);
      out.view.setUint16(vtable + 2, size, true);
      for (const { id, offset } of placed) out.view.setUint16(vtable + 4 + 2 * id, offset, true);
      for (const { field, offset } of placed) {
        if ("put" in field) field.put(out.view, at + offset);
        else refer(out, at + offset, field);
      }
      return at;
    },
  };
}

function refer(out: Out, at: number, part: Part): void {
  const to = part.write(out);
  out.view.setUint32(at, to - at, true);
}

/** Elements of `align` bytes each, or larger elements with this alignment. */
export function vector(bytes: Uint8Array, length: number, align: 1 | 4 | 8): Part {
  return {
    write: (out) => {
      const at = out.room(4 + bytes.length, Math.max(4, align), 4);
      out.view.setUint32(at, length, true);
      out.copy(at + 4, bytes);
      return at;
    },
  };
}

export function text(value: string): Part {
  const bytes = new TextEncoder().encode(value);
  return {
    write: (out) => {
      const at = out.room(5 + bytes.length, 4);
      out.view.setUint32(at, bytes.length, true);
      out.copy(at + 4, bytes);
      return at;
    },
  };
}

/** Tables or strings. */
export function list(parts: readonly Part[]): Part {
  return {
    write: (out) => {
      const at = out.room(4 + 4 * parts.length, 4);
      out.view.setUint32(at, parts.length, true);
      for (const [index, part] of parts.entries()) refer(out, at + 4 + 4 * index, part);
      return at;
    },
  };
}

/** A whole message with its identifier. */
export function message(identifier: string, root: Part): ArrayBuffer {
  const out = new Out();
  const at = out.room(8, 8);
  for (let index = 0; index < 4; index += 1) {
    out.view.setUint8(at + 4 + index, identifier.charCodeAt(index));
  }
  refer(out, at, root);
  return out.finish();
}
