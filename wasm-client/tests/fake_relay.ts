/** A relay that lives in the test: it takes requests as bytes and answers with golden frames. And a client of it. */

import { afterEach, beforeEach, vi } from "vitest";

import { Client, type Surroundings } from "../ts/client/client.js";
import { loadPage } from "../ts/store/page.js";
import type { ConnectionOptions, PvClient, RelayOptions } from "../ts/types.js";
import { golden, type GoldenName, graphqlWasm, pageWasm, wasm } from "./golden.js";

/** Request kinds by their number in the union. */
export type RequestKind =
  | "subscribe"
  | "unsubscribe"
  | "get"
  | "ack"
  | "ping"
  | "put"
  | "rpc"
  | "pace"
  | "authenticate"
  | "describe"
  | "putMany"
  | "putWithin"
  | "ask"
  | "cancel";

const KINDS: readonly RequestKind[] = [
  "subscribe",
  "unsubscribe",
  "get",
  "ack",
  "ping",
  "put",
  "rpc",
  "pace",
  "authenticate",
  "describe",
  "putMany",
  "putWithin",
  "ask",
  "cancel",
];

/** A request as the relay reads it: enough of flatbuffers to tell id, kind, and names. */
export interface ReadRequest {
  readonly id: number;
  readonly kind: RequestKind;
  readonly names: readonly string[];
  readonly ids: readonly number[];
  readonly tick: number;
  /** Of a Subscribe: minimum interval, deadband, one in how many and, with 32 bits, how much of arrays; of a Pace: its interval. */
  readonly filter: readonly number[];
  /** Of a Get: whether it requests descriptions. */
  readonly describes: boolean;
}

export function readRequest(bytes: Uint8Array): ReadRequest {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const field = (table: number, index: number): number => {
    const vtable = table - view.getInt32(table, true);
    const place = 4 + 2 * index;
    if (place >= view.getUint16(vtable, true)) return 0;
    const offset = view.getUint16(vtable + place, true);
    return offset === 0 ? 0 : table + offset;
  };
  const deref = (at: number): number => at + view.getUint32(at, true);
  const root = deref(0);
  const id = field(root, 0) === 0 ? 0 : view.getUint32(field(root, 0), true);
  const kind = KINDS[view.getUint8(field(root, 1)) - 1] as RequestKind;
  const body = deref(field(root, 2));
  const first = field(body, 0);
  const textAt = (text: number): string => {
    const length = view.getUint32(text, true);
    return new TextDecoder().decode(bytes.subarray(text + 4, text + 4 + length));
  };
  const names: string[] = [];
  const ids: number[] = [];
  let tick = 0;
  const filter: number[] = [];
  const uint32 = (at: number): number => (at === 0 ? 0 : view.getUint32(at, true));
  if (kind === "pace") {
    filter.push(uint32(first));
  } else if (kind === "subscribe" && field(body, 1) !== 0) {
    const table = deref(field(body, 1));
    const deadband = field(table, 1);
    filter.push(
      uint32(field(table, 0)),
      deadband === 0 ? 0 : view.getFloat64(deadband, true),
      uint32(field(table, 2)),
    );
    const reductions = [3, 4, 5].map((nth) => uint32(field(table, nth)));
    const float32 = field(table, 6);
    const average = field(table, 7);
    if (float32 !== 0) filter.push(...reductions, view.getUint8(float32));
    else if (average !== 0) filter.push(...reductions, 0);
    if (average !== 0) filter.push(view.getUint8(average));
  }
  if (kind === "ack") {
    tick = first === 0 ? 0 : Number(view.getBigUint64(first, true));
  } else if (["put", "rpc", "authenticate"].includes(kind)) {
    names.push(textAt(deref(first)));
  } else if (kind !== "ping" && kind !== "pace") {
    const vector = deref(first);
    for (let at = 0; at < view.getUint32(vector, true); at += 1) {
      const entry = vector + 4 + 4 * at;
      if (kind === "unsubscribe" || kind === "describe") {
        ids.push(view.getUint32(entry, true));
        continue;
      }
      const target = deref(entry);
      names.push(
        textAt(kind === "putMany" || kind === "putWithin" ? deref(field(target, 0)) : target),
      );
    }
  }
  const last = kind === "get" ? field(body, 2) : 0;
  const describes = last !== 0 && view.getUint8(last) === 1;
  return { id, kind, names, ids, tick, filter, describes };
}

/** Numbers of the golden snapshot's PVs; the last name was refused. */
const SNAPSHOT_IDS = [3, 4, 5, 6, 0xffffffff];

/** One connection from the side of a page's WebSocket. */
export class FakeSocket {
  static all: FakeSocket[] = [];
  binaryType = "blob";
  readyState = 0;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;
  readonly requests: ReadRequest[] = [];
  closedWith: number | undefined;

  constructor(
    readonly url: string,
    readonly protocol: string | readonly string[],
  ) {
    FakeSocket.all.push(this);
  }

  static get last(): FakeSocket {
    return FakeSocket.all.at(-1) as FakeSocket;
  }

  send(bytes: Uint8Array): void {
    this.requests.push(readRequest(bytes));
  }

  close(code: number): void {
    this.readyState = 3;
    this.closedWith = code;
  }

  /** The relay's part: the handshake and its first message. */
  open(hello: GoldenName = "hello"): void {
    this.readyState = 1;
    this.frame(hello);
  }

  frame(name: GoldenName): void {
    this.onmessage?.({ data: golden(name) });
  }

  /**
   * A frame that answers the last request of this kind, whatever number the golden one has. With
   * `ids` the golden snapshot's five PVs get other numbers. `nth` counts the puts of one message.
   */
  answer(name: GoldenName, kind: RequestKind, ids?: readonly number[], nth = 0): void {
    const request = this.sent(kind).at(-1) as ReadRequest;
    const data = golden(name);
    const view = new DataView(data);
    const root = view.getUint32(0, true);
    const vtable = root - view.getInt32(root, true);
    const replyTo = 10;
    const offset = view.getUint16(vtable + 4 + 2 * replyTo, true);
    view.setUint32(root + offset, request.id + nth, true);
    if (ids !== undefined) {
      const words = new Uint32Array(data);
      const at = words.findIndex((_, from) =>
        SNAPSHOT_IDS.every((id, n) => words[from + n] === id),
      );
      words.set(ids, at);
    }
    this.onmessage?.({ data });
  }

  /** The relay or the network ends the connection. */
  end(code: number): void {
    this.readyState = 3;
    this.onclose?.({ code, reason: "" });
  }

  sent(kind: RequestKind): ReadRequest[] {
    return this.requests.filter((request) => request.kind === kind);
  }
}

const webSocket = FakeSocket as unknown as typeof WebSocket;

/** The names that the golden snapshot answers, in its order. */
export const GOLDEN_NAMES = ["TEMP", "MODE", "TEXT", "LATE", ""] as const;

/** The options of a client; without an address it has one relay. */
type FakeOptions = Partial<ConnectionOptions> &
  (RelayOptions | { url?: undefined; urls?: undefined });

/** A client whose relay is the test. */
export function fakeClient(
  options: FakeOptions = {},
  surroundings: Surroundings = { random: () => 0.5 },
): PvClient {
  FakeSocket.all = [];
  const modules = {
    ...(wasm && { wasm }),
    ...(pageWasm && { pageWasm }),
    ...(graphqlWasm && { graphqlWasm }),
  };
  const { url, urls, ...others } = options;
  const relays: RelayOptions = urls ? { urls } : { url: url ?? "ws://relay.test/ws" };
  return new Client({ webSocket, ...modules, ...others, ...relays }, surroundings);
}

/** Loads the module of formulas and local PVs, so that `runPromises` needn't wait for the network. */
export const loadedPage = (): Promise<void> => loadPage(pageWasm);

/** Runs everything that waits for a promise. */
export async function runPromises(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
  await vi.dynamicImportSettled();
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
}

export let client: PvClient;

/** Called once at the top of a test file. */
export function eachWithClient(): void {
  beforeEach(async () => {
    vi.useFakeTimers();
    client = fakeClient();
    await client.ready;
  });

  afterEach(() => {
    client.dispose();
    vi.useRealTimers();
  });
}

/** Connects, and subscribes to the PVs of the golden frames. */
export async function open(): Promise<FakeSocket> {
  for (const name of GOLDEN_NAMES) client.pv(name).subscribe(() => undefined);
  FakeSocket.last.open();
  await runPromises();
  FakeSocket.last.answer("snapshot", "subscribe");
  return FakeSocket.last;
}

export const state = (): string => client.connection.getSnapshot().state;

/** Continues with another client. */
export function replaceClient(options?: FakeOptions): void {
  client.dispose();
  client = fakeClient(options);
}
