/** How do PVs, selections and the connection to one relay work together? */

import { systemClock, type Clock, type Timer } from "../clock.js";
import { Answered, isLoaded, load, Wasm, type Applied, type Columns } from "../store/core.js";
import { ALL_PARTS, CONNECTION, DESCRIBES, planSelection, skipped } from "../pv/fields.js";
import { Flusher } from "../store/flush.js";
import type { Gets, PlannedOptions } from "../link/get.js";
import { Heartbeat } from "../link/heartbeat.js";
import type { LargeStream } from "../link/large_stream.js";
import type { Locals } from "../pv/local.js";
import type { Operations } from "../link/operations.js";
import { checkOptions } from "../options.js";
import { PvHandle, filterOf, type PvOwner, type FilterNumbers } from "../pv/pv.js";
import { Cell, Listeners, Round } from "../store/readable.js";
import type { LargeRecord } from "../link/records.js";
import { Slot } from "../store/slot.js";
import {
  LZ4_SUBPROTOCOLS,
  NOT_CONNECTED,
  RelaySocket,
  SUBPROTOCOL,
  socketUrl,
} from "../link/socket.js";
import { Stats } from "../store/stats.js";
import type {
  ClientOptions,
  ConnectionSnapshot,
  GetResult,
  PutManyOptions,
  PutOptions,
  PutResult,
  PutValue,
  Pv,
  PvClient,
  PvInspection,
  PvOptions,
  RpcOptions,
  RpcResult,
} from "../types.js";

/** Ids that one Unsubscribe may hold. */
const MAX_IDS = 10_000;

/** From so many handles on, those that nobody listens to are let go. */
const MANY_HANDLES = 1000;

/** From messages of so many bytes on a stream beside the WebSocket pays. */
const LARGE_BYTES = 1 << 16;

/** Longest pause between two attempts to connect while somebody looks at the page, and otherwise. */
const SEEN_RETRY_MS = 5000;
const UNSEEN_RETRY_MS = 15_000;

/** The network returns for many pages at one moment: they share these milliseconds. */
const ONLINE_SPREAD_MS = 250;

/** What a count of all PVs reads of each. */
const COUNTED = "{ status { severity } connection { state unresponsive } }";

const isLocal = (name: string): boolean => name.startsWith("loc://");

const hasPage = (): boolean => typeof document === "object";

const isSeen = (): boolean => hasPage() && document.visibilityState === "visible";

const isHidden = (): boolean => hasPage() && document.visibilityState === "hidden";

/**
 * A module that is fetched when it is first needed. Browsers end imports of one that is being fetched in
 * any order; of one promise those who wait go on in the order they came.
 */
function once<T>(fetch: () => Promise<T>): () => Promise<T> {
  let module: Promise<T> | undefined;
  return () =>
    (module ??= fetch().catch((error: unknown) => {
      module = undefined;
      throw error;
    }));
}

const getModule = once(() => import("../link/get.js"));
const operationsModule = once(() => import("../link/operations.js"));
const localModule = once(() => import("../pv/local.js"));

/** What tests replace. */
export interface Surroundings {
  clock?: Clock;
  random?: () => number;
}

/** A PV that somebody listens to, or did so a moment ago. */
interface Held {
  readonly name: string;
  readonly filter: string;
  handles: readonly PvHandle[];
  /** Once the module is loaded. */
  slot: Slot | undefined;
  /** When it is given back; `undefined` while somebody listens. */
  idleUntil: number | undefined;
  /** Its description was asked for on this connection. */
  isDescribed: boolean;
}

export class Client implements PvClient, PvOwner {
  readonly connection: Cell<ConnectionSnapshot>;
  readonly stats: Stats;
  #options: ClientOptions;
  #clock: Clock;
  #random: () => number;
  #wasm: Wasm | undefined;
  /** What PVs without a slot are read from: nothing is known in it. */
  #blank = 0;
  #socket: RelaySocket | undefined;
  #large: LargeStream | undefined;
  #heartbeat: Heartbeat;
  #flusher = new Flusher(() => {
    this.#flush();
  });
  /** Once something was to be got. */
  #gets: Gets | undefined;
  /** Once connected, or once something was to be written or called. */
  #operations: Operations | undefined;
  /** Once there was a `loc://` PV. */
  #locals: Locals | undefined;
  #held = new Map<string, Held>();
  #bySlot: (Held | undefined)[] = [];
  /** Slots of the PVs that have listeners; `undefined` when others may have listeners now. */
  #listened: readonly Slot[] | undefined;
  #counters = new Listeners();
  /** Parts that `COUNTED` reads. */
  #countedParts = 0;
  #handles = new Map<string, PvHandle>();
  #sweepAt = MANY_HANDLES;
  /** PVs that are to be subscribed, in order, each with its filter. */
  #wanted = new Set<Held>();
  #subscribesOpen = 0;
  #subscribeSoon = false;
  #describeSoon = false;
  #idleTimer: Timer | undefined;
  #started = false;
  #disposed = false;
  #updatesTotal = 0;
  #skippedTotal = 0;
  #framesTotal = 0;
  #bytesTotal = 0;
  #gapsTotal = 0;
  #opensTotal = 0;

  constructor(options: ClientOptions, surroundings: Surroundings = {}) {
    checkOptions(options);
    this.#options = options;
    this.#clock = surroundings.clock ?? systemClock;
    this.#random = surroundings.random ?? Math.random;
    const start = (): void => {
      this.#start();
    };
    this.connection = new Cell(NOT_CONNECTED, start);
    this.stats = new Stats(
      this.#clock,
      () => ({
        updatesTotal: this.#updatesTotal,
        framesTotal: this.#framesTotal,
        bytesTotal: this.#bytesTotal,
        skippedTotal: this.#skippedTotal,
        gapsTotal: this.#gapsTotal,
        reconnectsTotal: Math.max(0, this.#opensTotal - 1),
        subscriptions: this.#held.size,
        roundTripMs: this.#heartbeat.roundTripMs,
      }),
      start,
    );
    this.#heartbeat = new Heartbeat({
      clock: this.#clock,
      pingIntervalMs: options.pingIntervalMs ?? 5000,
      pingTimeoutMs: options.pingTimeoutMs ?? 10_000,
      isWatched: () => !isHidden(),
      onNoNews: (isSilent) => {
        this.#noNews(isSilent);
      },
      sendAck: () => {
        this.#request((wasm) => wasm.core.ack());
      },
      sendPing: () => {
        this.#request((wasm) => wasm.core.ping(this.#clock.epochMs()));
      },
      onSilence: () => {
        this.#socket?.fail("the relay doesn't answer");
      },
    });
  }

  get loaded(): boolean {
    return isLoaded(this.#options.wasm);
  }

  get ready(): Promise<void> {
    return load(this.#options.wasm);
  }

  pv<T>(name: string, selection?: string, options?: PvOptions): Pv<T> {
    const filter = isLocal(name) ? "" : filterOf(options);
    const key = `${name}${filter}\n${selection ?? ""}`;
    let handle = this.#handles.get(key);
    if (handle === undefined) {
      handle = new PvHandle(this, name, selection, filter);
      handle.compile();
      this.#sweep();
      this.#handles.set(key, handle);
    } else {
      handle.compile();
    }
    return handle as Pv<T>;
  }

  async get<T>(names: readonly string[], options: PlannedOptions = {}): Promise<GetResult<T>[]> {
    checkOptions(options);
    await this.#toBeReached();
    const gets = await this.#loadGets();
    const results = gets.add(
      names.filter((name) => !isLocal(name)),
      options,
    );
    this.#pumpGets();
    if (names.some(isLocal)) await this.#loadLocals();
    const local = new Map(
      names.filter(isLocal).map((name) => [name, this.#getLocal(name, options)]),
    );
    const others = (await results).values();
    return names.map((name) => local.get(name) ?? others.next().value) as GetResult<T>[];
  }

  async #loadGets(): Promise<Gets> {
    const { Gets } = await getModule();
    this.#gets ??= new Gets(this.#clock);
    const { reason, state } = this.connection.getSnapshot();
    if (state === "closed") this.#gets.close(reason ?? state);
    return this.#gets;
  }

  async put(name: string, value: PutValue, options: PutOptions = {}): Promise<PutResult> {
    checkOptions(options);
    await this.#toBeReached();
    if (isLocal(name)) {
      const locals = await this.#loadLocals();
      const { core } = this.core();
      const result = locals.put(core, name, value);
      if (core.dirty_len() > 0) this.#flusher.later();
      return result;
    }
    return (await this.#loadOperations()).put(name, value, options, this.#slotOf(name));
  }

  async putMany(
    puts: readonly (readonly [name: string, value: PutValue])[],
    options: PutManyOptions = {},
  ): Promise<PutResult[]> {
    checkOptions(options);
    await this.#toBeReached();
    const operations = await this.#loadOperations();
    const others = puts.filter(([name]) => !isLocal(name));
    const slots = others.map(([name, value]) => [name, value, this.#slotOf(name)] as const);
    const results = operations.putMany(slots, options);
    const local = await Promise.all(
      puts.map(async ([name, value]) => (isLocal(name) ? this.put(name, value) : undefined)),
    );
    const done = (await results).values();
    return local.map((result) => result ?? (done.next().value as PutResult));
  }

  #slotOf(name: string): number | undefined {
    return this.#held.get(name)?.slot?.index;
  }

  async rpc(
    name: string,
    values: Readonly<Record<string, PutValue>>,
    options: RpcOptions = {},
  ): Promise<RpcResult> {
    checkOptions(options);
    await this.#toBeReached();
    return (await this.#loadOperations()).rpc(name, values, options);
  }

  async #loadOperations(): Promise<Operations> {
    const { Operations } = await operationsModule();
    return (this.#operations ??= new Operations(this.#clock, () => {
      this.#pumpOperations();
    }));
  }

  inspect(name: string, options?: PvOptions): PvInspection | undefined {
    const index = this.#held.get(name + filterOf(options))?.slot?.index;
    if (index === undefined) return undefined;
    const columns = this.columns();
    return {
      sequence: columns.sequence[index] as number,
      updatesReceived: columns.received[index] as number,
      skipped: skipped(columns, index),
    };
  }

  /** Slots of the PVs that have listeners, one for each name. */
  listened(): readonly Slot[] {
    if (this.#listened === undefined) {
      const held = [...this.#held.values()].filter(({ handles }) => handles.length > 0);
      const slots = new Map(held.map(({ name, slot }) => [name, slot]));
      this.#listened = [...slots.values()].filter((slot) => slot !== undefined);
    }
    return this.#listened;
  }

  /**
   * Calls `listener` when a count of all listened PVs by state and severity may have changed, in the
   * flush that tells of the change: a count and the values beside it are of one moment.
   */
  onCounted(listener: () => void): () => void {
    this.#start();
    return this.#counters.add(listener);
  }

  #recount(): void {
    this.#listened = undefined;
    if (this.#counters.all.length > 0) this.#flusher.later();
  }

  retryNow(): void {
    this.#socket?.retryWithin(0);
  }

  /** Ends the connection; the next one follows. */
  terminate(): void {
    this.#socket?.fail("terminated");
  }

  dispose(): void {
    this.#disposed = true;
    if (hasPage()) {
      document.removeEventListener("visibilitychange", this.#seen);
      document.defaultView?.removeEventListener("pageshow", this.#seen);
      document.defaultView?.removeEventListener("online", this.#online);
    }
    this.#clock.clearTimeout(this.#idleTimer);
    this.stats.stop();
    if (this.#socket !== undefined) this.#socket.close("disposed");
    else this.#end("disposed");
  }

  slotOf({ held, key, name }: PvHandle): Slot {
    return (held ?? this.#held.get(key))?.slot ?? new Slot(this.core(), name, this.#blank);
  }

  columns(): Columns {
    return this.core().columns;
  }

  attach(handle: PvHandle): void {
    this.#start();
    const { key, name, filter } = handle;
    let held = this.#held.get(key);
    if (held === undefined) {
      held = {
        name,
        filter,
        handles: [],
        slot: undefined,
        idleUntil: undefined,
        isDescribed: false,
      };
      this.#held.set(key, held);
      if (this.#wasm !== undefined) this.#place(held, this.#wasm);
    }
    if (held.handles.length === 0) this.#recount();
    held.handles = [...held.handles, handle];
    held.idleUntil = undefined;
    handle.held = held;
    // A PV that is subscribed already is asked for now, another with the answer to its Subscribe.
    if (!held.isDescribed && (handle.mask & DESCRIBES) !== 0) this.#describeLater();
  }

  detach(handle: PvHandle): void {
    const held = this.#held.get(handle.key);
    handle.held = undefined;
    if (held === undefined) return;
    held.handles = held.handles.filter((other) => other !== handle);
    if (held.handles.length > 0) return;
    this.#recount();
    held.idleUntil = this.#clock.now() + (this.#options.unsubscribeDelayMs ?? 2000);
    this.#giveBackLater();
  }

  /** Begins with the first use, so that a client can be made anywhere, also on a server. */
  #start(): void {
    if (this.#started || this.#disposed) return;
    this.#started = true;
    if (this.loaded) {
      this.#begin();
      return;
    }
    this.ready.then(
      () => {
        if (!this.#disposed) this.#begin();
      },
      (error: unknown) => {
        this.#end(error instanceof Error ? error.message : String(error));
      },
    );
  }

  /** The module is there: shows every PV for the first time and connects. */
  #begin(): void {
    this.core();
    const options = this.#options;
    const { maxRetryDelayMs, url, webSocket = globalThis.WebSocket } = options;
    const base = typeof location === "object" ? location.href : undefined;
    try {
      this.#socket = new RelaySocket({
        url: socketUrl(url, base),
        subprotocols: options.compression === "lz4" ? LZ4_SUBPROTOCOLS : SUBPROTOCOL,
        webSocket,
        clock: this.#clock,
        random: this.#random,
        maxRetryDelayMs: () => maxRetryDelayMs ?? (isSeen() ? SEEN_RETRY_MS : UNSEEN_RETRY_MS),
        onMessage: (data) => {
          this.#receive(data);
        },
        onLost: () => {
          this.#lost();
        },
        onChange: (snapshot) => {
          this.connection.set(snapshot);
        },
      });
    } catch (error) {
      this.#end(`${String(url)} is no address of a relay: ${String(error)}`);
      return;
    }
    if (hasPage()) {
      document.addEventListener("visibilitychange", this.#seen);
      document.defaultView?.addEventListener("pageshow", this.#seen);
      document.defaultView?.addEventListener("online", this.#online);
    }
    this.#socket.start();
  }

  readonly #seen = (): void => {
    this.#pace();
    if (!isSeen()) return;
    this.#heartbeat.woken();
    this.retryNow();
  };

  readonly #online = (): void => {
    this.#heartbeat.woken();
    this.#socket?.retryWithin(this.#random() * ONLINE_SPREAD_MS);
  };

  /** A page that nobody sees needs its PVs at intervals only. */
  #pace(): void {
    const { hiddenIntervalMs = 1000 } = this.#options;
    if (hiddenIntervalMs > 0 && this.#socket?.isOpen) {
      this.#request((wasm) => wasm.core.pace(isHidden() ? hiddenIntervalMs : 0));
    }
  }

  /** The client's state in the module, also for entries beside this one; only when that is loaded. */
  core(): Wasm {
    return this.#wasm ?? this.#newCore();
  }

  #newCore(): Wasm {
    const wasm = new Wasm();
    this.#wasm = wasm;
    this.#blank = wasm.add("");
    this.#bySlot = [];
    this.#listened = undefined;
    this.#countedParts = planSelection(COUNTED).mask;
    const round = new Round();
    for (const held of this.#held.values()) {
      this.#place(held, wasm);
      for (const handle of held.handles) {
        handle.prepare();
        round.add(handle.changed(ALL_PARTS));
      }
    }
    round.add(this.#counters.all);
    round.call();
    return wasm;
  }

  /** Gives a PV its slot and asks for it. */
  #place(held: Held, wasm: Wasm): void {
    held.slot = new Slot(wasm, held.name, wasm.add(held.name));
    this.#bySlot[held.slot.index] = held;
    if (isLocal(held.name)) {
      this.#placeLocal(held, held.slot);
    } else {
      this.#want(held);
    }
  }

  #placeLocal(held: Held, slot: Slot): void {
    if (this.#locals === undefined) {
      void this.#loadLocals().then(() => {
        // It may have been given back meanwhile, or have another slot.
        if (this.#bySlot[slot.index] === held && held.slot === slot) this.#placeLocal(held, slot);
      });
      return;
    }
    this.#locals.attach(slot.wasm.core, slot);
    this.#flusher.later();
  }

  async #loadLocals(): Promise<Locals> {
    const { Locals } = await localModule();
    return (this.#locals ??= new Locals(() => this.#clock.epochMs()));
  }

  #want(held: Held): void {
    this.#wanted.add(held);
    if (this.#subscribeSoon) return;
    // A page that mounts asks for all its PVs in one go.
    this.#subscribeSoon = true;
    queueMicrotask(() => {
      this.#subscribeSoon = false;
      this.#subscribe();
    });
  }

  /** Asks for what is wanted, one request after the other. */
  #subscribe(): void {
    if (this.#wasm === undefined || !this.#socket?.isOpen) return;
    if (this.#subscribesOpen > 0 || this.#wanted.size === 0) return;
    const [{ filter }] = this.#wanted as unknown as [Held];
    // One request has one filter; the others' turn comes with the answer.
    const wanted = [...this.#wanted].filter((held) => held.filter === filter);
    const slots = Uint32Array.from(wanted, (held) => held.slot?.index ?? 0);
    const numbers = (filter || "0,0").split(",").map(Number) as unknown as FilterNumbers;
    this.#request((wasm) => wasm.core.subscribe(slots, ...numbers));
    this.#subscribesOpen += 1;
    for (const held of wanted.slice(0, this.#wasm.core.taken())) this.#wanted.delete(held);
  }

  #describeLater(): void {
    if (this.#describeSoon) return;
    this.#describeSoon = true;
    queueMicrotask(() => {
      this.#describeSoon = false;
      this.#describe();
    });
  }

  /** Asks for the descriptions that selections read, of PVs that have their ids. */
  #describe(): void {
    if (this.#subscribesOpen > 0 || !this.#socket?.isOpen) return;
    const isWanted = (held: Held): boolean =>
      !held.isDescribed &&
      held.slot !== undefined &&
      !isLocal(held.name) &&
      !this.#wanted.has(held) &&
      held.handles.some((handle) => (handle.mask & DESCRIBES) !== 0);
    const wanted = [...this.#held.values()].filter(isWanted);
    for (const held of wanted) held.isDescribed = true;
    const slots = wanted.map((held) => held.slot?.index ?? 0);
    for (let at = 0; at < slots.length; at += MAX_IDS) {
      const some = Uint32Array.from(slots.slice(at, at + MAX_IDS));
      this.#request((wasm) => wasm.core.describe(some));
    }
  }

  #giveBackLater(): void {
    if (this.#idleTimer !== undefined) return;
    const due = Math.min(...this.#idle().map((held) => held.idleUntil ?? Infinity));
    if (due === Infinity) return;
    this.#idleTimer = this.#clock.setTimeout(
      () => {
        this.#idleTimer = undefined;
        this.#giveBack();
      },
      Math.max(0, due - this.#clock.now()),
    );
  }

  #idle(): Held[] {
    return [...this.#held.values()].filter((held) => held.idleUntil !== undefined);
  }

  /** Gives PVs back that nobody has listened to for a while. */
  #giveBack(): void {
    // While a Subscribe is open its answer may hold one of these PVs again, by another name.
    if (this.#subscribesOpen > 0) return;
    const now = this.#clock.now();
    const due = this.#idle().filter((held) => (held.idleUntil ?? Infinity) <= now);
    const slots: number[] = [];
    for (const held of due) {
      this.#held.delete(held.name + held.filter);
      this.#wanted.delete(held);
      if (held.slot === undefined) continue;
      this.#bySlot[held.slot.index] = undefined;
      if (isLocal(held.name)) this.#locals?.detach(held.slot);
      slots.push(held.slot.index);
    }
    for (let at = 0; at < slots.length; at += MAX_IDS) {
      const some = Uint32Array.from(slots.slice(at, at + MAX_IDS));
      this.#request((wasm) => wasm.core.remove(some));
    }
    this.#giveBackLater();
  }

  #sweep(): void {
    if (this.#handles.size < this.#sweepAt) return;
    for (const [key, handle] of this.#handles) {
      if (!handle.listened) this.#handles.delete(key);
    }
    this.#sweepAt = Math.max(MANY_HANDLES, 2 * this.#handles.size);
  }

  /** Makes a request and sends it; an empty one is none. */
  #request(make: (wasm: Wasm) => Uint8Array): void {
    if (this.#wasm === undefined) return;
    const bytes = make(this.#wasm);
    if (bytes.length > 0) this.#send(bytes as Uint8Array<ArrayBuffer>);
  }

  readonly #send = (bytes: Uint8Array<ArrayBuffer>): void => {
    this.#socket?.send(bytes);
  };

  #receive(message: unknown): void {
    this.#heartbeat.heard();
    if (this.#large?.takes(message)) return;
    if (typeof message === "string") {
      this.#socket?.fail("the relay sent text");
      return;
    }
    // A worker that holds the connection hands records of its stream on as they are.
    const bytes = message as ArrayBuffer & Partial<LargeRecord>;
    const { data = bytes, head = data.byteLength } = bytes;
    this.#frame(data, head);
  }

  readonly #frame = (data: ArrayBuffer, head: number): void => {
    this.#framesTotal += 1;
    this.#bytesTotal += data.byteLength;
    if (data.byteLength >= LARGE_BYTES) {
      void import("../link/large.js").then(({ largeStream }) => {
        const socket = this.#socket;
        if (socket?.isOpen) this.#large ??= largeStream(socket, this.#frame);
      });
    }
    const applied = this.#apply(data, head);
    if (applied === undefined) return;
    this.#updatesTotal = applied.updatesTotal;
    this.#skippedTotal = applied.skippedTotal;
    if (applied.gap) {
      this.#gapsTotal += 1;
      this.#socket?.fail("a frame is missing");
      return;
    }
    if (applied.movesTick) this.#keepArrays(applied.arrays, data);
    this.#answered(applied, data);
    if (applied.movesTick) this.#heartbeat.processed();
    if (applied.dirty > 0) this.#flusher.later();
  };

  #apply(data: ArrayBuffer, head: number): Applied | undefined {
    const wasm = this.core();
    try {
      const applied = wasm.apply(data, head);
      if (applied !== undefined) return applied;
      this.#socket?.fail(`the relay sent a damaged message: ${wasm.core.error()}`);
    } catch (error) {
      // The module stopped half-way, for example without memory: nothing in it can be trusted.
      this.#newCore();
      this.#socket?.fail(`the WebAssembly module failed: ${String(error)}`);
    }
    return undefined;
  }

  #keepArrays(arrays: Uint32Array, data: ArrayBuffer): void {
    for (let at = 0; at < arrays.length; at += 4) {
      const slot = this.#bySlot[arrays[at] as number]?.slot;
      slot?.keepArray(
        data,
        arrays[at + 1] as number,
        arrays[at + 2] as number,
        arrays[at + 3] as number,
      );
    }
  }

  #answered(applied: Applied, data: ArrayBuffer): void {
    const wasm = this.core();
    switch (applied.answered) {
      case Answered.hello: {
        const [version = "", instance = "", ackIntervalMs = "", isStranger] = wasm.core.hello();
        if (isStranger) {
          void this.#logIn();
          break;
        }
        // What is seen of a PV before its snapshot comes follows the connection.
        wasm.core.remove(Uint32Array.of(this.#blank));
        this.#blank = wasm.add("");
        this.#opensTotal += 1;
        this.#socket?.opened(version, instance);
        this.#heartbeat.start(Number(ackIntervalMs));
        if (isHidden()) this.#pace();
        for (const held of this.#held.values()) {
          held.isDescribed = false;
          if (!isLocal(held.name)) this.#wanted.add(held);
        }
        this.#subscribe();
        this.#pumpGets();
        this.#pumpOperations();
        // Before the first put: that mustn't fail because the page's server was updated meanwhile.
        this.#loadOperations().catch(() => undefined);
        break;
      }
      case Answered.subscribe:
        this.#subscribeAnswered();
        break;
      case Answered.unsubscribe:
        for (const slot of wasm.core.take_without_room()) {
          const held = this.#bySlot[slot];
          if (held !== undefined) this.#want(held);
        }
        break;
      case Answered.get:
        this.#gets?.answered(wasm, applied.replyTo, applied.arrays, data);
        this.#pumpGets();
        break;
      case Answered.put:
      case Answered.rpc:
        // The offset of a call's result is the second number of its row.
        this.#operations?.answered(wasm, applied.replyTo, data, applied.arrays[1]);
        break;
      case Answered.ping:
        this.#heartbeat.ponged();
        break;
      case Answered.error:
        if (
          !this.#gets?.refused(applied.replyTo, wasm.core.request_error()) &&
          !this.#operations?.refused(applied.replyTo, wasm.core.request_error())
        ) {
          this.#subscribeAnswered();
        }
        this.#pumpGets();
        break;
    }
  }

  /** The relay wants to know who this is, and says hello again when it does. */
  async #logIn(): Promise<void> {
    try {
      const token = await this.#options.token?.();
      this.#request((wasm) => wasm.core.authenticate(token ?? ""));
    } catch (error) {
      this.#socket?.fail(String(error));
    }
  }

  #subscribeAnswered(): void {
    this.#subscribesOpen = 0;
    this.#describe();
    this.#subscribe();
    this.#giveBack();
  }

  #getLocal(name: string, options: PlannedOptions): GetResult<unknown> {
    const handle = new PvHandle(this, name, options.selection);
    handle.subscribe(() => undefined)();
    return { name, ok: true, data: handle.getSnapshot() };
  }

  /** The module is there and the client has begun to connect. */
  async #toBeReached(): Promise<void> {
    this.#start();
    await this.ready;
  }

  #pumpOperations(): void {
    const { reason, state } = this.connection.getSnapshot();
    if (this.#wasm !== undefined && this.#socket?.isOpen) {
      this.#operations?.pump(this.#wasm, this.#send);
    } else if (state === "lost") {
      this.#operations?.lost("RELAY_LOST", `the relay is out of reach (${reason ?? "lost"})`);
    } else if (state === "closed") {
      this.#operations?.lost("CLOSED", reason ?? "closed");
    }
  }

  #pumpGets(): void {
    if (this.#wasm === undefined || !this.#socket?.isOpen) return;
    this.#gets?.pump(this.#wasm, this.#send);
  }

  #lost(): void {
    this.#heartbeat.stop();
    this.#large?.close();
    this.#large = undefined;
    this.#subscribesOpen = 0;
    const nowMs = this.#clock.epochMs();
    this.#wasm?.core.relay_lost(nowMs, nowMs - this.#heartbeat.silenceMs);
    this.#flusher.later();
    const { reason, state } = this.connection.getSnapshot();
    if (state === "closed") this.#gets?.close(reason ?? "closed");
    else this.#gets?.lost();
    this.#pumpOperations();
    this.#giveBack();
  }

  /** The relay has stopped answering, or answers again: every PV of it says so. */
  #noNews(isSilent: boolean): void {
    if (this.#wasm === undefined) return;
    const heardMs = this.#clock.epochMs() - this.#heartbeat.silenceMs;
    this.#wasm.heardMs = isSilent ? heardMs : NaN;
    const silentSinceMs = isSilent ? heardMs : undefined;
    this.connection.set({ ...this.connection.getSnapshot(), silentSinceMs });
    const round = new Round();
    for (const { handles, name } of this.#held.values()) {
      for (const handle of isLocal(name) ? [] : handles) {
        if ((handle.mask & CONNECTION) !== 0) round.add(handle.changed(CONNECTION));
      }
    }
    round.add(this.#counters.all);
    round.call();
  }

  /** There is no connection, and none will come. */
  #end(reason: string): void {
    this.#gets?.close(reason);
    this.connection.set({
      ...this.connection.getSnapshot(),
      state: "closed",
      sinceMs: this.#clock.epochMs(),
      reason,
    });
    this.#pumpOperations();
  }

  /** Tells whoever selected one of the parts that changed. */
  #flush(): void {
    if (this.#wasm === undefined) return;
    const { parts } = this.#wasm.columns;
    const round = new Round();
    let changedOfAny = 0;
    for (const slot of this.#wasm.dirty()) {
      const changed = parts[slot] as number;
      changedOfAny |= changed;
      for (const handle of this.#bySlot[slot]?.handles ?? []) {
        if ((handle.mask & changed) !== 0) round.add(handle.changed(changed));
      }
    }
    this.#wasm.core.clear_dirty();
    if (this.#listened === undefined || (changedOfAny & this.#countedParts) !== 0) {
      round.add(this.#counters.all);
    }
    round.call();
  }
}
