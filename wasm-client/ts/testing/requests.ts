/** Decodes a client's requests; contains only the parts of flatbuffers that this needs. */

import { numericArray, TYPES } from "../store/elements.js";
import {
  AskField,
  DescribeField,
  GetField,
  PingField,
  PutField,
  PutManyField,
  PutValueField,
  RequestBody,
  RequestField,
  SubscribeField,
  UnsubscribeField,
} from "../schema.js";
import type { PutValue, PvType } from "../types.js";

export interface RequestedPut {
  readonly name: string;
  readonly value: PutValue;
}

export type Request = { readonly id: number } & (
  | { readonly kind: "subscribe" | "get"; readonly names: readonly string[] }
  | { readonly kind: "unsubscribe" | "describe"; readonly ids: readonly number[] }
  | { readonly kind: "ping"; readonly clientTimeNs: bigint }
  | ({ readonly kind: "put" } & RequestedPut)
  | {
      readonly kind: "putMany";
      readonly puts: readonly RequestedPut[];
      readonly allPermitted: boolean;
    }
  | { readonly kind: "ask"; readonly service: string; readonly question: string }
  | { readonly kind: "rpc" | "other" }
);

type Body = keyof typeof RequestBody;

const BODIES = Object.keys(RequestBody) as Body[];

export function readRequest(bytes: Uint8Array): Request {
  return new Reader(bytes).request();
}

class Reader {
  #view: DataView;
  #buffer: ArrayBuffer;

  constructor(bytes: Uint8Array) {
    // A copy: the sender reuses its buffer.
    this.#buffer = bytes.slice().buffer;
    this.#view = new DataView(this.#buffer);
  }

  request(): Request {
    const root = this.#follow(0);
    const id = this.#u32(root, RequestField.id);
    const name = BODIES[this.#u8(root, RequestField.bodyType)] ?? "Ack";
    const body = this.#table(root, RequestField.body) ?? root;
    switch (name) {
      case "Subscribe":
        return { id, kind: "subscribe", names: this.#texts(body, SubscribeField.names) };
      case "Get":
        return { id, kind: "get", names: this.#texts(body, GetField.names) };
      case "Unsubscribe":
        return { id, kind: "unsubscribe", ids: this.#ids(body, UnsubscribeField.ids) };
      case "Describe":
        return { id, kind: "describe", ids: this.#ids(body, DescribeField.ids) };
      case "Ping": {
        const at = this.#place(body, PingField.clientTimeNs);
        return { id, kind: "ping", clientTimeNs: at === 0 ? 0n : this.#view.getBigInt64(at, true) };
      }
      case "Put":
        return { id, kind: "put", ...this.#put(body) };
      // Both have the same fields.
      case "PutWithin":
      case "PutMany": {
        const puts = this.#entries(body, PutManyField.puts).map((at) => this.#put(at));
        const allPermitted = this.#u8(body, PutManyField.allPermitted) === 1;
        return { id, kind: "putMany", puts, allPermitted };
      }
      case "Ask": {
        const service = this.#place(body, AskField.service);
        const question = this.#place(body, AskField.body);
        return {
          id,
          kind: "ask",
          service: service === 0 ? "" : this.#text(this.#follow(service)),
          question: question === 0 ? "" : this.#text(this.#follow(question)),
        };
      }
      case "Rpc":
        return { id, kind: "rpc" };
      default:
        return { id, kind: "other" };
    }
  }

  #put(at: number): RequestedPut {
    const place = this.#place(at, PutField.name);
    const name = place === 0 ? "" : this.#text(this.#follow(place));
    return { name, value: this.#value(this.#table(at, PutField.value)) };
  }

  #value(at: number | undefined): PutValue {
    if (at === undefined) return 0;
    const type: PvType = TYPES[this.#u8(at, PutValueField.type)] ?? "Unknown";
    const isArray = this.#u8(at, PutValueField.array) === 1;
    if (type === "String") {
      const texts = this.#texts(at, PutValueField.text);
      return isArray ? texts : (texts[0] ?? "");
    }
    const data = this.#place(at, PutValueField.data);
    const start = data === 0 ? 0 : this.#follow(data) + 4;
    const array = numericArray(
      this.#buffer,
      start,
      data === 0 ? 0 : this.#u32(at, PutValueField.count),
      type,
    );
    if (isArray) return array;
    return type === "Boolean" ? array[0] === 1 : (array[0] ?? 0);
  }

  #ids(at: number, field: number): number[] {
    const place = this.#place(at, field);
    if (place === 0) return [];
    const vector = this.#follow(place);
    const length = this.#view.getUint32(vector, true);
    return Array.from({ length }, (_, index) => this.#view.getUint32(vector + 4 + 4 * index, true));
  }

  #texts(at: number, field: number): string[] {
    return this.#entries(at, field).map((entry) => this.#text(entry));
  }

  /** The positions of the entries in a vector of strings or tables. */
  #entries(at: number, field: number): number[] {
    const place = this.#place(at, field);
    if (place === 0) return [];
    const vector = this.#follow(place);
    const length = this.#view.getUint32(vector, true);
    return Array.from({ length }, (_, index) => this.#follow(vector + 4 + 4 * index));
  }

  #text(at: number): string {
    const length = this.#view.getUint32(at, true);
    return new TextDecoder().decode(new Uint8Array(this.#buffer, at + 4, length));
  }

  #table(at: number, field: number): number | undefined {
    const place = this.#place(at, field);
    return place === 0 ? undefined : this.#follow(place);
  }

  #u8(at: number, field: number): number {
    const place = this.#place(at, field);
    return place === 0 ? 0 : this.#view.getUint8(place);
  }

  #u32(at: number, field: number): number {
    const place = this.#place(at, field);
    return place === 0 ? 0 : this.#view.getUint32(place, true);
  }

  #follow(place: number): number {
    return place + this.#view.getUint32(place, true);
  }

  /** The position of a field; 0 if it is absent. */
  #place(at: number, field: number): number {
    const vtable = at - this.#view.getInt32(at, true);
    const entry = 4 + 2 * field;
    if (entry >= this.#view.getUint16(vtable, true)) return 0;
    const offset = this.#view.getUint16(vtable + entry, true);
    return offset === 0 ? 0 : at + offset;
  }
}
