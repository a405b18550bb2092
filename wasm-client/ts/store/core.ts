/** Views of the WebAssembly module's memory, which never leave this package. */

import { compile, Core, initSync, release } from "../../pkg/pvwire_wasm.js";
import type { InitOutput } from "../../pkg/pvwire_wasm.js";
import { LoadError } from "../errors.js";
import type { WasmSource } from "../types.js";
import { Loader } from "./loader.js";
import { Results } from "./results.js";

/** The module's columns, one entry per slot; see `store.rs`. */
export interface Columns {
  readonly value: Float64Array;
  readonly seconds: Float64Array;
  readonly sinceMs: Float64Array;
  readonly heardMs: Float64Array;
  /** One count per cause for each slot. */
  readonly skips: Float64Array;
  readonly received: Float64Array;
  readonly nanoseconds: Uint32Array;
  readonly sequence: Uint32Array;
  readonly valueVersion: Uint32Array;
  readonly metadataVersion: Uint32Array;
  readonly parts: Uint32Array;
  readonly alarmStatus: Uint16Array;
  readonly kind: Uint8Array;
  readonly severity: Uint8Array;
  readonly state: Uint8Array;
  readonly access: Uint8Array;
}

/** The kind of request that a frame answered; the numbers of `ingest.rs`. */
export const Answered = {
  hello: 1,
  subscribe: 2,
  unsubscribe: 3,
  get: 4,
  ping: 5,
  error: 6,
  put: 7,
  rpc: 8,
} as const;

/** Why values were skipped; the wire's numbers. */
export const Cause = {
  relay: 1,
  source: 2,
  filter: 3,
  behind: 4,
  paced: 5,
  bus: 6,
  count: 7,
} as const;

/** What one frame did. */
export interface Applied {
  readonly answered: number;
  readonly replyTo: number;
  readonly gap: boolean;
  /** It must be acknowledged. */
  readonly movesTick: boolean;
  readonly dirty: number;
  readonly updatesTotal: number;
  readonly skippedTotal: number;
  /** An `ArrayRow` for each array and structure. */
  readonly arrays: Uint32Array;
}

/** An array or structure in a message. */
export type ArrayRow = [slot: number, offset: number, count: number, type: number];

/** The elements of the summary, see `lib.rs`. */
type Summary = [number, number, number, number, number, number, number, number];

const loader = new Loader<InitOutput>(
  initSync,
  () => new URL("../../pkg/pvwire_wasm_bg.wasm", import.meta.url),
);

/** Whether the module is loaded; loads it synchronously if possible. */
export const isLoaded = (source: WasmSource | Promise<WasmSource> | undefined): boolean =>
  loader.isLoaded(source);

/** Loads the module, once for all clients of a page. A failed attempt can be repeated. */
export const load = (source: WasmSource | Promise<WasmSource> | undefined): Promise<void> =>
  loader.load(source);

/** A selection's program and plan, one line per field, or its errors; only when `isLoaded`. */
export const compileSelection = compile;

/** Drops a program that nothing executes any more. */
export const releaseProgram = release;

/** One client's state in the module. */
export class Wasm {
  readonly core = new Core();
  /** When the relay was last heard from if it doesn't answer; NaN otherwise. */
  heardMs = NaN;
  readonly results: Results;
  #memory: WebAssembly.Memory;
  #columns: Columns | undefined;
  /** The message that the module has. */
  #message: ArrayBuffer | undefined;

  constructor() {
    if (loader.loaded === undefined) throw new LoadError("the WebAssembly module is not loaded");
    this.#memory = loader.loaded.memory;
    this.results = new Results(this.core, this.#memory);
  }

  /** The live PVs' columns. Valid until the module is called again. */
  get columns(): Columns {
    // There is always a slot: an empty view would not show that memory was moved.
    return this.#columns?.value.length ? this.#columns : (this.#columns = this.#view(false));
  }

  /** Begins a list of executions over live PVs, or over those of the last answered Get. */
  begin(kinds = this.columns.kind): Results {
    this.results.begin(kinds, this.heardMs);
    return this.results;
  }

  /** The kinds of the last answered Get's PVs. Valid until the module is called again. */
  answerKinds(): Uint8Array {
    return this.#view(true).kind;
  }

  /** A slot for a PV name. */
  add(name: string): number {
    const slot = this.core.add(name);
    // The columns may have moved, with or without the memory growing.
    this.#columns = undefined;
    return slot;
  }

  /**
   * Applies a message; returns `undefined` if it is not a valid frame. The bytes after `head` are
   * elements of an array, which the module doesn't need.
   */
  apply(data: ArrayBuffer, head: number): Applied | undefined {
    const { core } = this;
    const at = core.reserve(data.byteLength);
    new Uint8Array(this.#memory.buffer, at, head).set(new Uint8Array(data, 0, head));
    this.#message = head === data.byteLength ? data : undefined;
    if (!core.apply(data.byteLength)) return undefined;
    const [answered, replyTo, gap, movesTick, dirty, arrays, updatesTotal, skippedTotal] =
      new Float64Array(this.#memory.buffer, core.summary(), 8) as unknown as Summary;
    return {
      answered,
      replyTo,
      gap: gap === 1,
      movesTick: movesTick === 1,
      dirty,
      updatesTotal,
      skippedTotal,
      arrays: new Uint32Array(this.#memory.buffer, core.arrays(), arrays * 4),
    };
  }

  /** Passes a structure in a message that was applied before, or its changed fields. */
  hold(answer: boolean, slot: number, message: ArrayBuffer, offset: number, isPart: boolean): void {
    const { byteLength } = message;
    if (this.#message !== message) {
      const at = this.core.reserve(byteLength);
      new Uint8Array(this.#memory.buffer, at, byteLength).set(new Uint8Array(message));
      this.#message = message;
    }
    this.core.hold(answer, slot, byteLength, offset, isPart);
  }

  /** Slots with changed parts. Valid until the module is called again. */
  dirty(): Uint32Array {
    return new Uint32Array(this.#memory.buffer, this.core.dirty(), this.core.dirty_len());
  }

  #view(answer: boolean): Columns {
    const places = this.core.columns(answer);
    const buffer = this.#memory.buffer;
    const length = places[0] as number;
    let next = 1;
    const place = (): number => places[next++] as number;
    return {
      value: new Float64Array(buffer, place(), length),
      seconds: new Float64Array(buffer, place(), length),
      sinceMs: new Float64Array(buffer, place(), length),
      heardMs: new Float64Array(buffer, place(), length),
      skips: new Float64Array(buffer, place(), length * Cause.count),
      received: new Float64Array(buffer, place(), length),
      nanoseconds: new Uint32Array(buffer, place(), length),
      sequence: new Uint32Array(buffer, place(), length),
      valueVersion: new Uint32Array(buffer, place(), length),
      metadataVersion: new Uint32Array(buffer, place(), length),
      parts: new Uint32Array(buffer, place(), length),
      alarmStatus: new Uint16Array(buffer, place(), length),
      kind: new Uint8Array(buffer, place(), length),
      severity: new Uint8Array(buffer, place(), length),
      state: new Uint8Array(buffer, place(), length),
      access: new Uint8Array(buffer, place(), length),
    };
  }
}
