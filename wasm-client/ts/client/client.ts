/** One client of one relay: starts at its first use, applies messages and passes answers on. */

import { systemClock, type Clock } from "../clock.js";
import { AskError, LoadError, PutError } from "../errors.js";
import type { PlannedOptions } from "../link/get.js";
import { Link } from "../link/link.js";
import type { Operations } from "../link/operations.js";
import type { Questions } from "../link/questions.js";
import { checkOptions } from "../options.js";
import type { OfPage } from "../pv/of_page.js";
import { isOfPage } from "../pv/page_pv.js";
import { filterOf } from "../pv/pv.js";
import { writable } from "../store/json.js";
import { Answered, load, type Applied } from "../store/core.js";
import { Loader } from "../store/loader.js";
import { Stats } from "../store/stats.js";
import type {
  ClientOptions,
  ConnectionSnapshot,
  GetResult,
  NamesOptions,
  NamesResult,
  PutManyOptions,
  PutFailure,
  PutOptions,
  PutResult,
  PutValue,
  Pv,
  PvAbout,
  PvClient,
  PvHistory,
  PvHistoryOptions,
  PvInspection,
  PvOptions,
  Readable,
  RpcOptions,
  RpcResult,
} from "../types.js";
import { Handles } from "./handles.js";
import { Lazy } from "../lazy.js";
import { Pvs } from "./pvs.js";
import type { Reads } from "./reads.js";

/** Dependencies that tests replace. */
export interface Surroundings {
  clock?: Clock;
  random?: () => number;
}

export class Client implements PvClient {
  readonly connection: Readable<ConnectionSnapshot>;
  readonly stats: Stats;
  readonly pvs: Pvs;
  readonly options: ClientOptions;
  readonly questions: Lazy<Questions>;
  #link: Link;
  #handles: Handles;
  #reads: Lazy<Reads>;
  #operations: Lazy<Operations>;
  #isStarted = false;
  #isDisposed = false;

  constructor(options: ClientOptions, surroundings: Surroundings = {}) {
    checkOptions(options);
    const { clock = systemClock, random = Math.random } = surroundings;
    const start = (): void => {
      this.#start();
    };
    const link = new Link({
      options,
      clock,
      random,
      wasm: () => this.pvs.wasm,
      onListened: start,
      onMessage: (data, head) => {
        this.#receive(data, head);
      },
      onLost: (nowMs, heardMs) => {
        this.pvs.lost(nowMs, heardMs);
        this.#reads.value?.lost();
        this.#operations.value?.pump();
        this.questions.value?.pump();
      },
      onSilent: (heardMs) => {
        this.pvs.silent(heardMs);
      },
    });
    this.options = options;
    this.#link = link;
    this.connection = link.connection;
    this.pvs = new Pvs(options, clock, link, start);
    this.#handles = new Handles(this.pvs);
    this.#reads = new Lazy(() =>
      import("./reads.js").then(({ Reads }) => new Reads(clock, link, this.pvs)),
    );
    this.#operations = new Lazy(() =>
      import("../link/operations.js").then(
        ({ Operations }) =>
          new Operations({
            clock,
            link,
            wasm: () => this.pvs.core(),
            slotOf: (name) => this.pvs.entries.get(name)?.slot?.index,
            putLocal: (name, value) => this.put(name, value),
          }),
      ),
    );
    this.questions = new Lazy(() =>
      import("../link/questions.js").then(
        ({ Questions }) =>
          new Questions(clock, link, () => this.pvs.core(), options, { AskError, Lazy, Loader }),
      ),
    );
    this.stats = new Stats(
      clock,
      () => ({
        ...link.totals,
        reconnectsTotal: Math.max(0, link.opensTotal - 1),
        subscriptions: this.pvs.entries.size,
        roundTripMs: link.heartbeat.roundTripMs,
      }),
      start,
    );
  }

  get ready(): Promise<void> {
    return load(this.options.wasm);
  }

  pv<T>(name: string, selection?: string, options?: PvOptions): Pv<T> {
    return this.#handles.pv(name, selection, options) as Pv<T>;
  }

  async get<T>(names: readonly string[], options: PlannedOptions = {}): Promise<GetResult<T>[]> {
    const reads = await this.#needed(this.#reads, options);
    return reads.get(names, options) as Promise<GetResult<T>[]>;
  }

  async put(name: string, value: PutValue, options: PutOptions = {}): Promise<PutResult> {
    const part = isOfPage(name) ? this.pvs.ofPage : this.#operations;
    return this.#needed<OfPage | Operations>(part, options)
      .then((writer) => writer.put(name, value, options))
      .then(writable, unsent(name));
  }

  async putMany(
    puts: readonly (readonly [name: string, value: PutValue])[],
    options: PutManyOptions = {},
  ): Promise<PutResult[]> {
    return this.#needed(this.#operations, options)
      .then((writer) => writer.putMany(puts, options))
      .then(
        (results) => results.map(writable),
        (error: unknown) => puts.map(([name]) => unsent(name)(error)),
      );
  }

  async rpc(
    name: string,
    values: Readonly<Record<string, PutValue>>,
    options: RpcOptions = {},
  ): Promise<RpcResult> {
    return this.#needed(this.#operations, options)
      .then((writer) => writer.rpc(name, values, options))
      .then(writable, unsent(name));
  }

  async names(text: string, options: NamesOptions = {}): Promise<NamesResult> {
    const questions = await this.#needed(this.questions, options);
    return questions.names(text, options);
  }

  async about(name: string): Promise<PvAbout> {
    const questions = await this.#needed(this.questions, {});
    return questions.about(name);
  }

  async history(name: string, options: PvHistoryOptions = {}): Promise<PvHistory> {
    const questions = await this.#needed(this.questions, options);
    return questions.history(name, options);
  }

  /**
   * A part of the client that is loaded on demand, after the module is loaded and the client has
   * begun to connect.
   */
  async #needed<T>(part: Lazy<T>, options: object): Promise<T> {
    checkOptions(options);
    this.#start();
    await this.ready;
    return part.load();
  }

  inspect(name: string, options?: PvOptions): PvInspection | undefined {
    const index = this.pvs.entries.get(name + filterOf(options))?.slot?.index;
    if (index === undefined) return undefined;
    const [sequence = 0, updatesReceived = 0, skipped = 0] = this.pvs.core().inspect(index);
    return { sequence, updatesReceived, skipped };
  }

  retryNow(): void {
    this.#link.retryWithin(0);
  }

  /** Ends the connection; the client then reconnects. */
  terminate(): void {
    this.#link.fail("terminated");
  }

  dispose(): void {
    this.#isDisposed = true;
    this.pvs.stop();
    this.stats.stop();
    this.#link.end("disposed");
  }

  /** Called at the first use, so that a client can be created anywhere, also on a server. */
  #start(): void {
    if (this.#isStarted || this.#isDisposed) return;
    this.#isStarted = true;
    const begin = (): void => {
      // Shows every PV for the first time.
      this.pvs.core();
      this.#link.start();
    };
    if (this.pvs.loaded) {
      begin();
      return;
    }
    this.ready.then(
      () => {
        if (!this.#isDisposed) begin();
      },
      (error: unknown) => {
        this.#link.end(error instanceof Error ? error.message : String(error));
      },
    );
  }

  #receive(data: ArrayBuffer, head: number): void {
    const applied = this.#apply(data, head);
    if (applied === undefined) return;
    const { totals } = this.#link;
    totals.updatesTotal = applied.updatesTotal;
    totals.skippedTotal = applied.skippedTotal;
    if (applied.gap) {
      totals.gapsTotal += 1;
      this.#link.fail("a frame is missing");
      return;
    }
    if (applied.movesTick) this.pvs.keepArrays(applied.arrays, data);
    this.#answered(applied, data);
    if (applied.movesTick) this.#link.heartbeat.processed();
    if (applied.dirty > 0) this.pvs.flusher.later();
  }

  #apply(data: ArrayBuffer, head: number): Applied | undefined {
    const wasm = this.pvs.core();
    try {
      const applied = wasm.apply(data, head);
      if (applied !== undefined) return applied;
      this.#link.fail(`the relay sent a damaged message: ${wasm.core.error()}`);
    } catch (error) {
      // The module stopped in the middle of a call, for example without memory: its state can't be
      // trusted.
      this.pvs.renew();
      this.#link.fail(`the WebAssembly module failed: ${String(error)}`);
    }
    return undefined;
  }

  #answered(applied: Applied, data: ArrayBuffer): void {
    switch (applied.answered) {
      case Answered.hello:
        this.#hello();
        break;
      case Answered.subscribe:
        this.pvs.subscribed();
        break;
      case Answered.unsubscribe:
        this.pvs.unsubscribed();
        break;
      case Answered.get:
        this.#reads.value?.answered(applied, data);
        break;
      case Answered.put:
      case Answered.rpc:
        this.#operations.value?.answered(applied, data);
        break;
      case Answered.page:
        this.questions.value?.answered(applied, data);
        break;
      case Answered.ping:
        this.#link.heartbeat.ponged();
        break;
      case Answered.error:
        this.#refused(applied.replyTo);
        break;
    }
  }

  #hello(): void {
    const [version = "", instance = "", ackIntervalMs = "", isStranger, isCrowded, ...relays] =
      this.pvs.core().core.hello();
    if (isStranger) {
      void this.#link.logIn();
      return;
    }
    if (this.#link.learned(relays, isCrowded)) return;
    this.#link.opened(version, instance, Number(ackIntervalMs));
    if (!this.#link.isOpen) return;
    this.pvs.opened();
    this.#reads.value?.pump();
    this.#operations.value?.pump();
    this.questions.value?.pump();
    // Loaded before the first put, which must not fail because the page's server was updated
    // meanwhile.
    this.#operations.load().catch(() => undefined);
  }

  /** A request was refused as a whole. */
  #refused(request: number): void {
    const message = this.pvs.core().core.request_error();
    const parts = [this.#reads, this.#operations, this.questions];
    if (!parts.some(({ value }) => value?.refused(request, message))) this.pvs.subscribed();
  }
}

/** Puts and calls fail, and don't reject, if their code can't be loaded. */
const unsent =
  (name: string) =>
  (error: unknown): PutFailure => {
    if (!(error instanceof LoadError)) throw error;
    return { ok: false, error: new PutError(name, error.code, error.message, false) };
  };
