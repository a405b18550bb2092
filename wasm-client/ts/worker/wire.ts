/**
 * Reads and changes the parts of a message that a worker needs to pass it to the right page, in
 * place.
 */

import {
  AckField,
  AnswerPageField,
  CancelField,
  FrameField,
  FrameKind,
  PaceField,
  PutManyField,
  ReplyBody,
  RequestBody,
  RequestField,
  SubscribedField,
  UnsubscribeField,
} from "../schema.js";

/** An id that belongs to no PV. */
export const NO_ID = 0xffff_ffff;

/** The position of a table's field; 0 if it has its default. */
function place(view: DataView, table: number, field: number): number {
  const vtable = table - view.getInt32(table, true);
  const entry = 4 + 2 * field;
  if (entry >= view.getUint16(vtable, true)) return 0;
  const offset = view.getUint16(vtable + entry, true);
  return offset === 0 ? 0 : table + offset;
}

const follow = (view: DataView, at: number): number => at + view.getUint32(at, true);

const byte = (view: DataView, at: number): number => (at === 0 ? 0 : view.getUint8(at));

/** The ids in a field; empty if it is absent. */
function idsAt(view: DataView, table: number, field: number): Uint32Array {
  const at = table === 0 ? 0 : place(view, table, field);
  if (at === 0) return new Uint32Array();
  const vector = follow(view, at);
  return new Uint32Array(view.buffer, vector + 4, view.getUint32(vector, true));
}

/** A request of a page to the relay. */
export class Request {
  readonly kind: number;
  #view: DataView;
  #root: number;

  constructor(readonly data: ArrayBuffer) {
    this.#view = new DataView(data);
    this.#root = follow(this.#view, 0);
    this.kind = byte(this.#view, place(this.#view, this.#root, RequestField.bodyType));
  }

  get id(): number {
    const at = place(this.#view, this.#root, RequestField.id);
    return at === 0 ? 0 : this.#view.getUint32(at, true);
  }

  set id(id: number) {
    const at = place(this.#view, this.#root, RequestField.id);
    if (at !== 0) this.#view.setUint32(at, id, true);
  }

  /** The ids of an Unsubscribe; writing to them changes the request. */
  get ids(): Uint32Array {
    return idsAt(this.#view, this.#body(), UnsubscribeField.ids);
  }

  /** The tick of an Ack. */
  get tick(): bigint {
    const at = place(this.#view, this.#body(), AckField.tick);
    return at === 0 ? 0n : this.#view.getBigUint64(at, true);
  }

  /** Number of answers: one, or one for each put of a PutMany or PutWithin. */
  get answers(): number {
    if (this.kind !== RequestBody.PutMany && this.kind !== RequestBody.PutWithin) return 1;
    return Math.max(idsAt(this.#view, this.#body(), PutManyField.puts).length, 1);
  }

  /** The id in a Cancel; writing to it changes the request. */
  get cancelled(): Uint32Array {
    const at = place(this.#view, this.#body(), CancelField.request);
    return at === 0 ? new Uint32Array() : new Uint32Array(this.data, at, 1);
  }

  /** The interval of a Pace. */
  get intervalMs(): number {
    const at = place(this.#view, this.#body(), PaceField.intervalMs);
    return at === 0 ? 0 : this.#view.getUint32(at, true);
  }

  #body(): number {
    return follow(this.#view, place(this.#view, this.#root, RequestField.body));
  }
}

/** A message of the relay. */
export class Frame {
  readonly reply: number;
  readonly replyTo: number;
  /** Whether it changes the state of subscribed PVs. */
  readonly isData: boolean;
  #view: DataView;
  #root: number;

  constructor(
    readonly data: ArrayBuffer,
    /** Number of bytes before its array's elements. */
    readonly head: number,
  ) {
    const view = new DataView(data);
    const root = follow(view, 0);
    this.#view = view;
    this.#root = root;
    this.reply = byte(view, place(view, root, FrameField.replyType));
    const replyTo = place(view, root, FrameField.replyTo);
    this.replyTo = replyTo === 0 ? 0 : view.getUint32(replyTo, true);
    this.isData = byte(view, place(view, root, FrameField.kind)) !== FrameKind.Answer;
  }

  /** Further answers to the same request follow. */
  get hasMore(): boolean {
    if (this.reply !== ReplyBody.AnswerPage) return false;
    const page = follow(this.#view, place(this.#view, this.#root, FrameField.reply));
    return byte(this.#view, place(this.#view, page, AnswerPageField.last)) === 0;
  }

  /** The ids of a Subscribed. */
  get ids(): Uint32Array {
    const reply = follow(this.#view, place(this.#view, this.#root, FrameField.reply));
    return idsAt(this.#view, reply, SubscribedField.ids);
  }

  /** The same frame as the answer to another request. */
  answering(id: number): ArrayBuffer {
    const at = place(this.#view, this.#root, FrameField.replyTo);
    if (at !== 0) this.#view.setUint32(at, id, true);
    return this.data;
  }

  /** A copy of an answer, without its request number. */
  withoutReply(): ArrayBuffer {
    const copy = this.data.slice(0);
    const at = place(this.#view, this.#root, FrameField.replyType);
    new DataView(copy).setUint8(at, ReplyBody.NONE);
    return copy;
  }
}

/** A request whose body has one field, with id 0: a number, or the offset of the list that follows. */
function request(kind: number, _field: 0, ...body: number[]): Request {
  const identifier = 0x5257_5650;
  const vtable = new Uint16Array(3);
  vtable[RequestField.id] = 4;
  vtable[RequestField.body] = 8;
  vtable[RequestField.bodyType] = 12;
  const [first = 0, second = 0, third = 0] = vtable;
  const words = [20, identifier, 10 | (16 << 16), first | (second << 16), third, 12, 1, 16, kind];
  return new Request(Uint32Array.from([...words, 6 | (8 << 16), 4, 8, ...body]).buffer);
}

export const unsubscribe = (ids: readonly number[]): Request =>
  request(RequestBody.Unsubscribe, UnsubscribeField.ids, 4, ids.length, ...ids);

export const cancel = (id: number): Request => request(RequestBody.Cancel, CancelField.request, id);

export const pace = (intervalMs: number): Request =>
  request(RequestBody.Pace, PaceField.intervalMs, intervalMs);
