/** A relay inside a test. It speaks the real protocol with the real client. */

import { Client } from "../client/client.js";
import { systemClock, type Clock } from "../clock.js";
import {
  AlarmRowLayout,
  AnswerPageField,
  DetailField,
  FrameField,
  FrameKind,
  GotField,
  HelloField,
  NameErrorField,
  NameProblem,
  NumbersField,
  Outcome,
  PongField,
  PutDoneField,
  ReplyBody,
  RequestErrorField,
  RequestProblem,
  UnsubscribedField,
} from "../schema.js";
import type { ConnectionOptions, PutValue, PvClient, WasmSource } from "../types.js";
import { nanoseconds, node, PvState, type FakePv, type FakeValue } from "./fake_pv.js";
import {
  i64,
  list,
  message,
  table,
  text,
  u32,
  u8,
  vector,
  type Fields,
  type Part,
} from "./flatbuffer.js";
import { FakePast, foundNames, momentNs } from "./answers.js";
import { readRequest, type Request } from "./requests.js";

type FrameFields = Fields<typeof FrameField>;

const REFUSED = 0xffffffff;

/** Options of a relay inside a test. */
export interface FakeRelayOptions {
  /** The existing PVs by name. */
  pvs?: Readonly<Record<string, FakePv | FakeScalar>>;
  /** For the relay and its clients. @default the system's clock */
  clock?: Clock;
  /** For clients in Node, which can't fetch the module. */
  wasm?: WasmSource;
}

type FakeScalar = Exclude<FakeValue, object>;

/** A put that a client has sent. */
export interface FakePut {
  /** The PV's name. */
  readonly name: string;
  /** The value that was sent. */
  readonly value: PutValue;
}

/**
 * Why a put failed, with a code or as `FAILED`, or the PV's value if it differs from the one put;
 * nothing if the put succeeded.
 */
export type PutAnswer =
  | string
  | {
      /** Who refuses it: the IOC, or the relay's rules. */
      readonly code: "NO_ACCESS" | "NOT_ALLOWED";
      /** Why. */
      readonly message: string;
    }
  | {
      /** The PV's value after the put. */
      readonly readback: FakeScalar;
    }
  | undefined;

/** A relay inside a test. */
export interface FakeRelay {
  /** For `createClient({ webSocket })`; every address leads to this relay. */
  readonly webSocket: typeof WebSocket;
  /** A client of this relay, on its clock. */
  client: (options?: Partial<ConnectionOptions>) => PvClient;
  /** Changes the state or the value of a PV: clients that are subscribed get an update. */
  set: (name: string, change: FakePv | FakeScalar) => void;
  /** From the next subscription on the relay refuses the name. */
  refuse: (name: string, reason: string) => void;
  /**
   * Decides the outcome of puts: why a put fails, or `{ holds }` if the PV takes another value,
   * synchronously or later. Otherwise the put succeeds and the PV has the value.
   */
  onPut: ((put: FakePut) => PutAnswer | Promise<PutAnswer>) | undefined;
  /** All puts that were sent, successful or not. */
  readonly puts: readonly FakePut[];
  /** Names that clients are subscribed to now. */
  readonly subscriptions: readonly string[];
  /** Stops the relay: connections end and none can be made. */
  lose: () => void;
  /** Starts the relay again, as another process. */
  restore: () => void;
}

/**
 * A relay in the page or the test, with the given PVs.
 *
 * ```ts
 * const relay = createFakeRelay({ pvs: { TEMP: { value: 21.5, units: "°C", precision: 1 } } });
 * const client = relay.client();
 * relay.set("TEMP", { value: 80, severity: "MAJOR", alarmStatus: 3 });
 * relay.lose();
 * ```
 */
export function createFakeRelay(options: FakeRelayOptions = {}): FakeRelay {
  return new Relay(options);
}

class Relay implements FakeRelay {
  onPut: FakeRelay["onPut"];
  readonly puts: FakePut[] = [];
  readonly webSocket: typeof WebSocket;
  readonly clock: Clock;
  #wasm: WasmSource | undefined;
  #pvs = new Map<string, PvState>();
  #pasts = new Map<PvState, FakePast>();
  #refused = new Map<string, string>();
  #sockets = new Set<FakeSocket>();
  #there = true;
  #instance = 1n;
  #tick = 1n;

  constructor({ clock = systemClock, pvs = {}, wasm }: FakeRelayOptions) {
    this.clock = clock;
    this.#wasm = wasm;
    for (const [name, pv] of Object.entries(pvs)) this.set(name, pv);
    const connect = (socket: FakeSocket): void => {
      this.#connect(socket);
    };
    this.webSocket = class extends FakeSocket {
      constructor() {
        super();
        connect(this);
      }
    } as unknown as typeof WebSocket;
  }

  client(options: Partial<ConnectionOptions> = {}): PvClient {
    const wasm = this.#wasm === undefined ? {} : { wasm: this.#wasm };
    const all = { url: "ws://fake.relay/ws", webSocket: this.webSocket, ...wasm, ...options };
    return new Client(all, { clock: this.clock, random: () => 0.5 });
  }

  get subscriptions(): string[] {
    const ids = new Set([...this.#sockets].flatMap((socket) => [...socket.ids]));
    return [...this.#pvs].filter(([, { id }]) => ids.has(id)).map(([name]) => name);
  }

  set(name: string, change: FakePv | FakeScalar): void {
    const update: FakePv = typeof change === "object" ? change : { value: change };
    const pv = this.#pv(name, "connected");
    const before = { type: pv.type, count: pv.elementCount, state: pv.state, alarm: alarmOf(pv) };
    const had = pv.fields.value !== undefined;
    pv.fields = { ...pv.fields, timeMs: this.clock.epochMs(), ...update };
    // What was missing is there.
    if (update.value !== undefined && update.missingField === undefined)
      delete pv.fields.missingField;
    // A name that was not found becomes connected when another part of its state is set.
    if (update.state === undefined && before.state !== "connected") pv.fields.state = "connected";
    if (pv.state !== before.state) pv.sinceMs = this.clock.epochMs();
    const isSilent = pv.state === "disconnected" || pv.fields.unresponsive === true;
    if (!isSilent) pv.heardMs = 0;
    else if (pv.heardMs === 0) pv.heardMs = this.clock.epochMs();
    // A value that may no longer be read is withdrawn.
    const isWithdrawn = had && update.readable === false;
    if (isWithdrawn) delete pv.fields.value;
    if (had && (pv.type !== before.type || isWithdrawn)) {
      pv.epoch += 1;
      pv.sequence = 0;
    }
    const { message: words, severity, alarmStatus, timeMs, value } = update;
    const isRow =
      pv.fields.value !== undefined &&
      [value, severity, alarmStatus, words, timeMs].some((part) => part !== undefined);
    if (isRow) pv.sequence += 1;
    this.#pasts.get(pv)?.add(pv, isRow, this.clock.epochMs());
    this.#tick += 1n;
    const parts = rowParts(pv, isRow, !had || alarmOf(pv) !== before.alarm, isWithdrawn);
    for (const socket of this.#sockets) {
      if (!socket.ids.has(pv.id)) continue;
      this.#send(socket, FrameKind.Update, { prevTick: i64(socket.tick), ...parts });
    }
  }

  refuse(name: string, reason: string): void {
    this.#refused.set(name, reason);
  }

  lose(): void {
    this.#there = false;
    for (const socket of this.#sockets) socket.end(1006);
    this.#sockets.clear();
  }

  restore(): void {
    this.#there = true;
    this.#instance += 1n;
  }

  #pv(name: string, state: "connected" | "notFound"): PvState {
    const bare = name.replace(/^ca:\/\//, "");
    let pv = this.#pvs.get(bare);
    if (pv === undefined) {
      pv = new PvState(this.#pvs.size + 1, this.clock.epochMs());
      pv.fields.state = state;
      this.#pvs.set(bare, pv);
      this.#pasts.set(pv, new FakePast());
    }
    return pv;
  }

  #connect(socket: FakeSocket): void {
    queueMicrotask(() => {
      if (!this.#there) {
        socket.end(1006);
        return;
      }
      if (socket.readyState !== 0) return;
      socket.readyState = 1;
      this.#sockets.add(socket);
      socket.onrequest = (bytes) => {
        // A relay's answer never arrives before the client has finished the code that sent the
        // request.
        queueMicrotask(() => {
          if (socket.readyState === 1) this.#answer(socket, readRequest(bytes));
        });
      };
      socket.onleave = () => this.#sockets.delete(socket);
      const hello = table(HelloField, {
        relayVersion: text("fake"),
        relayInstance: i64(this.#instance),
        maxRequestBytes: u32(1 << 20),
        maxSubscriptions: u32(20_000),
        ackIntervalMs: u32(250),
        notFoundAfterMs: u32(5000),
      });
      this.#send(socket, FrameKind.Answer, { replyType: u8(ReplyBody.Hello), reply: hello });
    });
  }

  #answer(socket: FakeSocket, request: Request): void {
    switch (request.kind) {
      case "subscribe":
      case "get":
        this.#snapshot(socket, request.id, request.kind, request.names);
        break;
      case "unsubscribe": {
        for (const id of request.ids) socket.ids.delete(id);
        const ids = vector(
          new Uint8Array(Uint32Array.from(request.ids).buffer),
          request.ids.length,
          4,
        );
        this.#reply(socket, request.id, ReplyBody.Unsubscribed, table(UnsubscribedField, { ids }));
        break;
      }
      case "ping": {
        const now = i64(nanoseconds(this.clock.epochMs()));
        this.#reply(
          socket,
          request.id,
          ReplyBody.Pong,
          table(PongField, { clientTimeNs: i64(request.clientTimeNs), relayTimeNs: now }),
        );
        break;
      }
      case "put":
        void this.#put(socket, request.id, request);
        break;
      case "putMany": {
        const { allPermitted, id, puts } = request;
        const isRefused = ({ name }: FakePut): boolean =>
          this.#pv(name, "notFound").fields.puts === false;
        const refused = allPermitted ? puts.find(isRefused) : undefined;
        puts.forEach((put, at) => {
          if (refused === undefined || isRefused(put)) {
            void this.#put(socket, id + at, put);
            return;
          }
          const why = `nothing was written: this relay refuses the put to ${refused.name}`;
          const answer = table(PutDoneField, { outcome: u8(Outcome.Withheld), message: text(why) });
          this.#reply(socket, id + at, ReplyBody.PutDone, answer);
        });
        break;
      }
      case "ask":
        this.#page(socket, request.id, request.service, request.question);
        break;
      case "rpc": {
        const error = table(RequestErrorField, {
          problem: u8(RequestProblem.NotSupported),
          message: text("the fake relay calls no services"),
        });
        this.#reply(socket, request.id, ReplyBody.RequestError, error);
        break;
      }
      // In the fake relay, descriptions are sent with the metadata.
      case "describe":
      case "other":
        break;
    }
  }

  #snapshot(
    socket: FakeSocket,
    id: number,
    kind: "subscribe" | "get",
    names: readonly string[],
  ): void {
    const errors: Part[] = [];
    const pvs = names.map((name, index) => {
      const reason =
        this.#refused.get(name) ?? (name === "" ? "a PV name can't be empty" : undefined);
      if (reason === undefined) return this.#pv(name, "notFound");
      errors.push(
        table(NameErrorField, {
          index: u32(index),
          problem: u8(NameProblem.BadName),
          message: text(reason),
        }),
      );
      return undefined;
    });
    const there = [...new Set(pvs)].filter((pv) => pv !== undefined);
    if (kind === "subscribe") for (const pv of there) socket.ids.add(pv.id);
    const withValue = there.filter((pv) => pv.fields.value !== undefined);
    const rows = [
      ...withValue.filter((pv) => pv.isNumber),
      ...withValue.filter((pv) => !pv.isNumber),
    ];
    const sequences = Uint32Array.from(rows, (pv) => pv.sequence);
    const ids = Uint32Array.from(pvs, (pv) => pv?.id ?? REFUSED);
    this.#send(socket, kind === "subscribe" ? FrameKind.Snapshot : FrameKind.Answer, {
      metadata: list(there.filter((pv) => pv.isDescribed).map((pv) => pv.metadata())),
      connections: list(there.map((pv) => pv.connection())),
      ...valueParts(rows, true),
      sequences: vector(new Uint8Array(sequences.buffer), sequences.length, 4),
      replyTo: u32(id),
      replyType: u8(kind === "subscribe" ? ReplyBody.Subscribed : ReplyBody.Got),
      reply: table(GotField, {
        ids: vector(new Uint8Array(ids.buffer), ids.length, 4),
        errors: list(errors),
      }),
    });
  }

  async #put(socket: FakeSocket, id: number, { name, value }: FakePut): Promise<void> {
    const pv = this.#pv(name, "notFound");
    const done = (outcome: number, why = "", readback?: Part): void => {
      const answer = table(PutDoneField, { outcome: u8(outcome), message: text(why), readback });
      if (socket.readyState === 1) this.#reply(socket, id, ReplyBody.PutDone, answer);
    };
    this.puts.push({ name, value });
    if (pv.state !== "connected") {
      done(Outcome.NotConnected, "the PV is not connected");
      return;
    }
    if (pv.fields.puts === false) {
      done(Outcome.NotAllowed, "this relay takes no puts to it");
      return;
    }
    if (pv.fields.mutable === false) {
      done(Outcome.NoAccess, "the server gives no write access");
      return;
    }
    const fitting = fit(value, pv);
    if (fitting === undefined) {
      done(
        Outcome.BadValue,
        `${JSON.stringify(value)} is no ${pv.type === "Enum" ? "choice" : "number"}`,
      );
      return;
    }
    const answer = await this.onPut?.({ name, value });
    if (typeof answer === "object" && "code" in answer) {
      const { code, message } = answer;
      done(code === "NO_ACCESS" ? Outcome.NoAccess : Outcome.NotAllowed, message);
      return;
    }
    if (typeof answer === "string") {
      done(Outcome.Failed, answer);
      return;
    }
    this.set(name, { value: answer?.readback ?? fitting });
    if (answer === undefined) done(Outcome.Done);
    else {
      const { readback } = answer;
      const shown = typeof readback === "string" ? JSON.stringify(readback) : String(readback);
      const words = `the PV now holds ${shown}`;
      done(Outcome.Done, words, node("", readback));
    }
  }

  /** Answers a question. */
  #page(socket: FakeSocket, id: number, service: string, question: string): void {
    const send = (outcome: number, message: string, bytes: Uint8Array, last = true): void => {
      const padded = new Uint8Array(8 * Math.ceil(bytes.length / 8));
      padded.set(bytes);
      const page = table(AnswerPageField, {
        outcome: u8(outcome),
        message: text(message),
        last: u8(last ? 1 : 0),
        bytes: u32(bytes.length),
        data: vector(padded, padded.length / 8, 8),
      });
      this.#reply(socket, id, ReplyBody.AnswerPage, page);
    };
    const refuse = (outcome: number, why: string): void => {
      send(outcome, why, new Uint8Array());
    };
    switch (service) {
      case "names": {
        const names = [...this.#pvs].filter(
          ([name, { state }]) => state !== "notFound" && !this.#refused.has(name),
        );
        const found = foundNames(
          names.map(([name]) => name),
          question,
        );
        send(Outcome.Done, "", new TextEncoder().encode(JSON.stringify(found)));
        break;
      }
      case "history":
        try {
          const pages = this.#past(question);
          pages.forEach((page, at) => {
            send(Outcome.Done, "", page, at === pages.length - 1);
          });
        } catch (error) {
          refuse(Outcome.BadValue, String(error));
        }
        break;
      default: {
        const why = `the fake relay has no service "${service}"; it has: names, history`;
        refuse(Outcome.BadName, why);
      }
    }
  }

  /** The pages of an answer of the service `history`. */
  #past(question: string): Uint8Array[] {
    const {
      from,
      pv: name = "",
      to,
    } = JSON.parse(question) as {
      readonly from?: string | null;
      readonly pv?: string;
      readonly to?: string | null;
    };
    const pv = this.#pv(name, "notFound");
    const [fromNs, toNs] = [from, to].map((moment) => momentNs(moment, this.clock.epochMs()));
    return this.#pasts.get(pv)?.pages(pv, this.#tick, fromNs, toNs) ?? [];
  }

  #reply(socket: FakeSocket, to: number, kind: number, body: Part): void {
    this.#send(socket, FrameKind.Answer, {
      replyTo: u32(to),
      replyType: u8(kind),
      reply: body,
    });
  }

  #send(socket: FakeSocket, kind: number, fields: FrameFields): void {
    // Answers are no updates: a client that gets one is at the same tick as before.
    if (kind !== FrameKind.Answer) socket.tick = this.#tick;
    const all = { ...fields, kind: u8(kind), tick: i64(this.#tick) };
    const data = message("PVWF", table(FrameField, all));
    socket.onmessage?.({ data });
  }
}

const alarmOf = ({ alarmStatus, fields, severity }: PvState): string =>
  [severity, alarmStatus, fields.message].join();

/** The parts of an Update of one PV: metadata, connection and, with a new value, its row. */
function rowParts(
  pv: PvState,
  isRow: boolean,
  alarmChanged: boolean,
  isWithdrawn: boolean,
): FrameFields {
  return {
    metadata: pv.isDescribed || isWithdrawn ? list([pv.metadata()]) : undefined,
    connections: list([pv.connection()]),
    ...(isRow ? valueParts([pv], alarmChanged) : {}),
  };
}

/** Rows, numbers first. */
function valueParts(rows: readonly PvState[], withAlarms: boolean): FrameFields {
  const timeOf = (pv: PvState): bigint => nanoseconds(pv.fields.timeMs ?? 0);
  const numeric = rows.filter((pv) => pv.isNumber);
  const others = rows.filter((pv) => !pv.isNumber);
  const values = Float64Array.from(numeric, (pv) => Number(pv.fields.value));
  const ids = differences(numeric.map((pv) => BigInt(pv.id)));
  const times = differences(numeric.map(timeOf));
  const alarms = new DataView(new ArrayBuffer(AlarmRowLayout.bytes * rows.length));
  for (const [row, pv] of rows.entries()) {
    const at = AlarmRowLayout.bytes * row;
    alarms.setUint32(at + AlarmRowLayout.row, row, true);
    alarms.setUint16(at + AlarmRowLayout.status, pv.alarmStatus, true);
    alarms.setUint8(at + AlarmRowLayout.severity, pv.severity);
  }
  const details = rows.flatMap((pv, row) =>
    pv.fields.message === undefined
      ? []
      : [table(DetailField, { row: u32(row), message: text(pv.fields.message) })],
  );
  return {
    numbers:
      numeric.length === 0
        ? undefined
        : table(NumbersField, {
            count: u32(numeric.length),
            ids: vector(ids, ids.length, 1),
            baseTimeNs: i64(0n),
            times: vector(times, times.length, 1),
            values: vector(new Uint8Array(values.buffer), values.length, 8),
          }),
    blobs: others.length === 0 ? undefined : list(others.map((pv) => pv.blob(timeOf(pv)))),
    alarms: withAlarms ? vector(new Uint8Array(alarms.buffer), rows.length, 4) : undefined,
    details: withAlarms && details.length > 0 ? list(details) : undefined,
  };
}

/** A column of zigzag LEB128 differences. */
function differences(values: readonly bigint[]): Uint8Array {
  const bytes: number[] = [];
  let before = 0n;
  for (const value of values) {
    const difference = value - before;
    let word = difference < 0n ? -2n * difference - 1n : 2n * difference;
    while (word >= 0x80n) {
      bytes.push(Number(word & 0x7fn) | 0x80);
      word >>= 7n;
    }
    bytes.push(Number(word));
    before = value;
  }
  return Uint8Array.from(bytes);
}

/** The value in the PV's type; `undefined` if it doesn't fit. */
function fit(value: PutValue, pv: PvState): FakeValue | undefined {
  if (typeof value === "object") return ArrayBuffer.isView(value) ? value : (value as FakeValue);
  switch (pv.type) {
    case "String":
      return String(value);
    case "Enum": {
      const choices = pv.fields.choices ?? [];
      // A number is an index, also where a label has the same digits.
      const label = typeof value === "string" ? choices.indexOf(value) : -1;
      const index = label < 0 && value !== "" ? Number(value) : label;
      return Number.isInteger(index) && index in choices ? index : undefined;
    }
    case "Int64":
    case "UInt64":
      return /^-?\d+$/.test(String(value)) ? BigInt(value) : undefined;
    default: {
      const number = Number(value);
      if (!Number.isNaN(number) && value !== "") return number;
      const special = /^([-+]?)(nan|inf)/i.exec(String(value));
      if (special === null) return undefined;
      return special[2]?.toLowerCase() === "nan" ? NaN : special[1] === "-" ? -Infinity : Infinity;
    }
  }
}

/** The parts of a WebSocket that the client uses. */
class FakeSocket {
  binaryType = "blob";
  readyState = 0;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;
  onrequest: ((bytes: Uint8Array) => void) | undefined;
  onleave: (() => void) | undefined;
  /** The subscribed PVs. */
  readonly ids = new Set<number>();
  /** Tick of the last update or snapshot. */
  tick = 0n;

  send(bytes: Uint8Array): void {
    this.onrequest?.(bytes.slice());
  }

  close(code: number): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onleave?.();
    queueMicrotask(() => this.onclose?.({ code, reason: "" }));
  }

  end(code: number): void {
    this.readyState = 3;
    this.onclose?.({ code, reason: "" });
  }
}
