/** Runs the cases of `client-core/tests/vectors` with the package's client and a relay in the test. */

import { vi } from "vitest";

import { Client } from "../ts/client/client.js";
import { SelectionError } from "../ts/errors.js";
import { createGraphqlClient } from "../ts/graphql/index.js";
import { loadGraphql } from "../ts/graphql/module.js";
import {
  FrameKind,
  GotField,
  HelloField,
  NameErrorField,
  NameProblem,
  Outcome,
  PutDoneField,
  ReplyBody,
} from "../ts/schema.js";
import { createFakeClock } from "../ts/testing/clock.js";
import { i64, list, table, text, u32, u8, vector, type Part } from "../ts/testing/flatbuffer.js";
import { readRequest, type Request, type RequestedPut } from "../ts/testing/requests.js";
import type { PvData } from "../ts/types.js";
import { runPromises } from "./fake_relay.js";
import { graphqlWasm, wasm } from "./golden.js";
import { frame, isUpdate, type FramePv, type Parts } from "./vector_frames.js";

/** The connection to the relay is lost, or the relay doesn't answer. */
interface RelayEvent {
  readonly lostMs?: number;
  readonly silentSinceMs?: number;
  readonly heardMs?: number;
}

/** What changes, by PV; `$relay` is the connection to the relay. */
export type Event = Readonly<Record<string, Parts | RelayEvent>>;

export interface Step {
  /** Only the first event can be that of the file. */
  readonly event?: Event;
  expected?: unknown;
}

export interface Case {
  readonly name: string;
  /** The user as whom the client has logged in. */
  readonly user?: string;
  /** The PV of a selection. */
  readonly pv?: string;
  readonly selection?: string;
  readonly document?: string;
  readonly operation?: string;
  readonly variables?: Record<string, unknown>;
  /** What a mutation puts: names and values, in order. */
  puts?: readonly [string, unknown][];
  readonly steps: Step[];
}

export interface Vectors {
  readonly about: string;
  /** For cases that have neither selection nor document. */
  readonly selection?: string;
  readonly document?: string;
  /** The first event of cases that have none. */
  readonly event?: Event;
  readonly cases: Case[];
}

/** When a case begins, on every clock in it. */
const START_MS = 1_753_000_000_000;

const REFUSED = 0xffffffff;

interface PvEntry extends Pick<FramePv, "id" | "value" | "time" | "alarm"> {
  sequence: number;
  all: Parts;
}

/** The relay: the state of each PV, and one connection. */
export class Relay {
  readonly clock = createFakeClock(START_MS);
  readonly user: string;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;
  binaryType = "blob";
  readyState = 0;
  /** The puts that it received. */
  readonly puts: [string, unknown][] = [];
  #pvs = new Map<string, PvEntry>();
  #subscribed = new Set<string>();
  #tick = 1n;

  constructor(user: string) {
    this.user = user;
  }

  /** A client connects. */
  open(): void {
    queueMicrotask(() => {
      this.readyState = 1;
      const hello = table(HelloField, {
        relayVersion: text("vectors"),
        relayInstance: i64(1n),
        maxRequestBytes: u32(1 << 20),
        maxSubscriptions: u32(100),
        ackIntervalMs: u32(250),
        notFoundAfterMs: u32(5000),
        user: text(this.user),
      });
      this.#reply(0, ReplyBody.Hello, hello);
    });
  }

  send(bytes: Uint8Array): void {
    const request = readRequest(bytes);
    queueMicrotask(() => {
      this.#answer(request);
    });
  }

  close(): void {
    this.readyState = 3;
  }

  /** Sends what changed of the subscribed PVs. */
  change(event: Event): void {
    const { $relay, ...changes } = event as Record<string, Parts> & { $relay?: RelayEvent };
    const changed = Object.entries(changes).map(([name, parts]) => this.#merge(name, parts));
    const sent = changed.filter(({ name }) => this.#subscribed.has(name));
    if (sent.length > 0) {
      const causes = sent.flatMap(({ pv }) => Object.keys(pv.sent.skips ?? {}));
      const isCatchUp = causes.includes("behind") || causes.includes("paced");
      this.#tick += 1n;
      this.#send(
        frame(
          isCatchUp ? FrameKind.CatchUp : FrameKind.Update,
          this.#tick,
          this.#tick - 1n,
          sent.map(({ pv }) => pv),
        ),
      );
    }
    if ($relay !== undefined) this.#relay($relay);
  }

  #relay({ heardMs, lostMs, silentSinceMs }: RelayEvent): void {
    this.#passTo(heardMs ?? silentSinceMs ?? 0);
    // A message without content.
    this.#tick += 1n;
    this.#send(frame(FrameKind.Update, this.#tick, this.#tick - 1n, []));
    if (silentSinceMs !== undefined) this.#passTo(silentSinceMs + 3500);
    if (lostMs === undefined) return;
    this.#passTo(lostMs);
    this.readyState = 3;
    this.onclose?.({ code: 1006, reason: "" });
  }

  #passTo(epochMs: number): void {
    this.clock.advance(epochMs - this.clock.epochMs());
  }

  #merge(name: string, parts: Parts): { name: string; pv: FramePv } {
    const before = this.#pvs.get(name) ?? {
      id: this.#pvs.size + 1,
      sequence: 0,
      value: undefined,
      time: undefined,
      alarm: undefined,
      all: {},
    };
    const all = { ...before.all, ...parts };
    const { metadata } = before.all;
    const { metadata: next } = parts;
    const type = metadata?.type ?? "Unknown";
    const isRetyped = type !== "Unknown" && type !== (next?.type ?? "Unknown");
    const isOther =
      metadata !== undefined &&
      next !== undefined &&
      (isRetyped || (metadata.epoch ?? 0) !== (next.epoch ?? 0));
    const skipped = Object.values(parts.skips ?? {}).reduce((sum, count) => sum + count, 0);
    const value = parts.value ?? (isOther ? undefined : before.value);
    const isSent = value !== undefined && isUpdate(parts);
    const entry: PvEntry = {
      id: before.id,
      sequence: (isOther ? 0 : before.sequence) + (isSent ? 1 + skipped : 0),
      value,
      time: parts.time === undefined ? before.time : parts.time,
      alarm: parts.alarm === undefined ? before.alarm : parts.alarm,
      all,
    };
    this.#pvs.set(name, entry);
    return { name, pv: { ...entry, sent: parts } };
  }

  #answer(request: Request): void {
    switch (request.kind) {
      case "subscribe":
        for (const name of request.names) this.#subscribed.add(name);
        this.#state(request.id, FrameKind.Snapshot, ReplyBody.Subscribed, request.names);
        break;
      case "get":
        this.#state(request.id, FrameKind.Answer, ReplyBody.Got, request.names);
        break;
      case "put":
        this.#done(request.id, request);
        break;
      case "putMany":
        request.puts.forEach((requested, at) => {
          this.#done(request.id + at, requested);
        });
        break;
      default:
        break;
    }
  }

  #done(id: number, { name, value }: RequestedPut): void {
    this.puts.push([name, tagged(value)]);
    const isDone = this.#pvs.get(name)?.all.put !== "noAccess";
    const answer = table(PutDoneField, {
      outcome: u8(isDone ? Outcome.Done : Outcome.NoAccess),
      message: text(isDone ? "" : "the server gives no write access"),
    });
    this.#reply(id, ReplyBody.PutDone, answer);
  }

  /** The whole state of these PVs. */
  #state(id: number, kind: number, replyType: number, names: readonly string[]): void {
    const errors: Part[] = [];
    const pvs = names.map((name, index) => {
      const entry = this.#pvs.get(name) ?? this.#merge(name, {}).pv;
      const all = this.#pvs.get(name)?.all ?? {};
      const problem = all.refused ?? all.missing;
      if (problem !== undefined) {
        const isMissing = all.missing !== undefined;
        errors.push(
          table(NameErrorField, {
            index: u32(index),
            problem: u8(isMissing ? NameProblem.TimedOut : NameProblem.BadName),
            message: text(problem),
          }),
        );
      }
      return { ...entry, sent: { ...all, skips: {} } };
    });
    const isKnown = ({ sent }: FramePv): boolean =>
      sent.refused === undefined && sent.missing === undefined;
    const ids = Uint32Array.from(pvs, (pv) => (isKnown(pv) ? pv.id : REFUSED));
    this.#send(
      frame(kind, this.#tick, 0n, [...new Map(pvs.map((pv) => [pv.id, pv])).values()], {
        replyTo: u32(id),
        replyType: u8(replyType),
        reply: table(GotField, {
          ids: vector(new Uint8Array(ids.buffer), ids.length, 4),
          errors: list(errors),
        }),
      }),
    );
  }

  #reply(to: number, kind: number, body: Part): void {
    this.#send(
      frame(FrameKind.Answer, this.#tick, 0n, [], {
        replyTo: u32(to),
        replyType: u8(kind),
        reply: body,
      }),
    );
  }

  #send(data: ArrayBuffer): void {
    if (this.readyState === 1) this.onmessage?.({ data });
  }
}

const ARRAYS = new Map<unknown, string>([
  [Float64Array, "Float64"],
  [Float32Array, "Float32"],
  [Int8Array, "Int8"],
  [Uint8Array, "UInt8"],
  [Int16Array, "Int16"],
  [Uint16Array, "UInt16"],
  [Int32Array, "Int32"],
  [Uint32Array, "UInt32"],
  [BigInt64Array, "Int64"],
  [BigUint64Array, "UInt64"],
]);

const plainNumber = (value: number | bigint): number | string => {
  if (typeof value === "bigint") return String(value);
  if (Object.is(value, -0)) return "-0";
  return Number.isFinite(value) ? value : String(value);
};

/** A result in the notation of the vectors: JSON, with tags for what JSON lacks. */
export function tagged(value: unknown): unknown {
  if (typeof value === "bigint") return { $bigint: String(value) };
  if (typeof value === "number") {
    const plain = plainNumber(value);
    return typeof plain === "string" ? { $number: plain } : plain;
  }
  if (ArrayBuffer.isView(value)) {
    const elements = [...(value as unknown as Iterable<number | bigint>)];
    return { $array: ARRAYS.get(value.constructor), of: elements.map(plainNumber) };
  }
  if (Array.isArray(value)) return value.map(tagged);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, tagged(member)]));
}

/** A client whose connection is to this relay. */
export function clientOf(relay: Relay): Client {
  const webSocket = function connect(): Relay {
    relay.open();
    return relay;
  } as unknown as typeof WebSocket;
  return new Client(
    { url: "ws://relay.test/ws", webSocket, ...(wasm && { wasm }) },
    { clock: relay.clock, random: () => 0.5 },
  );
}

/** The results of each step of a case, and what a mutation has put. */
export interface Ran {
  readonly results: unknown[];
  readonly puts: readonly [string, unknown][];
}

/** Calls a function with a client, whose relay has nothing yet, and stops the clock while it runs. */
async function withClient<T>(
  user: string,
  act: (client: Client, relay: Relay) => Promise<T>,
): Promise<T> {
  // `runPromises` doesn't wait for the network.
  await loadGraphql(graphqlWasm);
  vi.useFakeTimers();
  const relay = new Relay(user);
  const client = clientOf(relay);
  try {
    await client.ready;
    return await act(client, relay);
  } finally {
    client.dispose();
    vi.useRealTimers();
  }
}

/** Runs a case. */
export const run = (vectors: Vectors, of: Case): Promise<Ran> =>
  withClient(of.user ?? "", async (client, relay) => {
    const document = of.document ?? (of.selection === undefined ? vectors.document : undefined);
    const events = of.steps.map(({ event }) => event ?? vectors.event ?? {});
    if (document !== undefined) {
      const results = await execute(client, relay, of, document, events);
      return { results, puts: relay.puts };
    }
    const selection = of.selection ?? vectors.selection ?? "*";
    // The puts of selections are those of their events.
    return { results: await select(client, relay, of.pv, selection, events), puts: [] };
  });

/** What the PVs of an event are for a client, by name. */
export const snapshots = (event: Event): Promise<Map<string, PvData>> =>
  withClient("", async (client, relay) => {
    relay.change(event);
    const pvs = Object.keys(event).map((name) => client.pv(name));
    for (const pv of pvs) pv.subscribe(() => undefined);
    await flush();
    return new Map(pvs.map((pv) => [pv.name, pv.getSnapshot() as PvData]));
  });

/** The client must have taken every frame. */
function mustBeWell(client: Client, event: Event): void {
  const { reason, state } = client.connection.getSnapshot();
  if (state !== "open" && !("$relay" in event)) throw new Error(`${state}: ${reason ?? ""}`);
}

/** Delivers what waits for a promise, and then for an animation frame. */
export async function flush(): Promise<void> {
  await runPromises();
  vi.advanceTimersByTime(300);
  await runPromises();
}

/** Makes the puts whose outcome an event gives. */
async function put(client: Client, event: Event): Promise<void> {
  for (const [name, parts] of Object.entries(event)) {
    if ("put" in parts) void client.put(name, 1);
  }
  await flush();
}

/** The snapshot after each step. */
async function select(
  client: Client,
  relay: Relay,
  name = "PV",
  selection: string,
  events: readonly Event[],
): Promise<unknown[]> {
  const results: unknown[] = [];
  for (const [at, event] of events.entries()) {
    relay.change(event);
    try {
      const pv = client.pv<unknown>(name, selection === "*" ? undefined : selection);
      if (at === 0) pv.subscribe(() => undefined);
      await flush();
      mustBeWell(client, event);
      await put(client, event);
      results.push(tagged(pv.getSnapshot()));
    } catch (error) {
      if (!(error instanceof SelectionError)) throw error;
      results.push({ $error: error.message });
    }
  }
  return results;
}

/** The results that an operation gives in each step. */
async function execute(
  client: Client,
  relay: Relay,
  { operation, variables }: Case,
  query: string,
  events: readonly Event[],
): Promise<unknown[]> {
  const results: unknown[] = [];
  let received: unknown[] = [];
  for (const [at, event] of events.entries()) {
    relay.change(event);
    if (at === 0) {
      createGraphqlClient(client).subscribe(
        { query, operationName: operation, variables },
        {
          next: (result) => received.push(tagged(result)),
          error: (errors) => received.push({ $errors: tagged(errors) }),
          complete: () => undefined,
        },
      );
    }
    await flush();
    mustBeWell(client, event);
    // A mutation puts by itself.
    await put(client, query.startsWith("subscription") ? event : {});
    results.push(received);
    received = [];
  }
  return results;
}
