/** Views of the WebAssembly module's memory, which never leave this package. */

import { compile, Core, initSync, release } from "../../pkg/pvwire_wasm.js";
import type { InitOutput } from "../../pkg/pvwire_wasm.js";
import { LoadError } from "../errors.js";
import type { WasmSource } from "../types.js";
import { Loader } from "./loader.js";
import { Results } from "./results.js";

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
  page: 9,
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

/** Elements of the summary, see `lib.rs`. */
type Summary = [number, number, number, number, number, number, number, number];

/** Where the summary has the times of the last answered Ping, and the answer about a slot. */
const PONG_PLACE = 8;
const INSPECTED_PLACE = 10;

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
  readonly memory: WebAssembly.Memory;
  /** The message that the module has. */
  #message: ArrayBuffer | undefined;

  constructor() {
    if (loader.loaded === undefined) throw new LoadError("the WebAssembly module is not loaded");
    this.memory = loader.loaded.memory;
    this.results = new Results(this.core, this.memory);
  }

  /** A slot for a PV name. */
  add(name: string): number {
    return this.core.add(name);
  }

  /**
   * Applies a message; returns `undefined` if it is not a valid frame. The bytes after `head` are
   * elements of an array, which the module doesn't need.
   */
  apply(data: ArrayBuffer, head: number): Applied | undefined {
    const { core } = this;
    const at = core.reserve(data.byteLength);
    new Uint8Array(this.memory.buffer, at, head).set(new Uint8Array(data, 0, head));
    this.#message = head === data.byteLength ? data : undefined;
    if (!core.apply(data.byteLength)) return undefined;
    const [answered, replyTo, gap, movesTick, dirty, arrays, updatesTotal, skippedTotal] =
      this.#summary(0, 8) as unknown as Summary;
    return {
      answered,
      replyTo,
      gap: gap === 1,
      movesTick: movesTick === 1,
      dirty,
      updatesTotal,
      skippedTotal,
      arrays: new Uint32Array(this.memory.buffer, core.arrays(), arrays * 4),
    };
  }

  /** Passes a structure in a message that was applied before, or its changed fields. */
  hold(answer: boolean, slot: number, message: ArrayBuffer, offset: number, isPart: boolean): void {
    const { byteLength } = message;
    if (this.#message !== message) {
      const at = this.core.reserve(byteLength);
      new Uint8Array(this.memory.buffer, at, byteLength).set(new Uint8Array(message));
      this.#message = message;
    }
    this.core.hold(answer, slot, byteLength, offset, isPart);
  }

  /** Slots with changed parts. Valid until the module is called again. */
  dirty(): Uint32Array {
    return new Uint32Array(this.memory.buffer, this.core.dirty(), this.core.dirty_len());
  }

  /** When the last answered Ping was sent and when it was answered: milliseconds past the epoch. */
  pong(): Float64Array {
    return this.#summary(PONG_PLACE, 2);
  }

  /**
   * A slot's last sequence number, how many updates were received and skipped, the PV's epoch, its state by the numbers
   * of `store.rs`, and seconds and nanoseconds of its time stamp.
   */
  inspect(slot: number): Float64Array {
    this.core.inspect(slot);
    return this.#summary(INSPECTED_PLACE, 7);
  }

  #summary(place: number, count: number): Float64Array {
    return new Float64Array(this.memory.buffer, this.core.summary() + 8 * place, count);
  }
}
