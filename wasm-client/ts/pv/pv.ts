/** One PV with one selection: its listeners, and the snapshot that they read. */

import type { Columns } from "../store/core.js";
import { ALL_PARTS, planSelection, View, type Selection } from "./fields.js";
import { checkOptions } from "../options.js";
import { Listeners, type Listener } from "../store/readable.js";
import type { Slot } from "../store/slot.js";
import type { Pv, PvOptions } from "../types.js";

/** Whether a PV is local to the page. */
export const isLocal = (name: string): boolean => name.startsWith("loc://");

/** A filter as the arguments of the module's `subscribe`; missing ones are 0. */
export type FilterNumbers = [
  intervalMs: number,
  deadband: number,
  every: number,
  stride: number,
  maxLength: number,
  points: number,
  float32: boolean,
];

/** Options as one string, empty if they filter nothing. */
export function filterOf(options: PvOptions = {}): string {
  checkOptions(options);
  const { deadband = 0, every = 1, float32, maxLength, points, rateHz, stride } = options;
  const intervalMs = rateHz === undefined ? 0 : Math.min(Math.ceil(1000 / rateHz), 0x7fffffff);
  const less = [stride, maxLength, points, float32 && 1];
  const filter = `\n${String([intervalMs, deadband, every, ...less])}`;
  return filter === "\n0,0,1,,,," ? "" : filter;
}

/** The client of a PV's handle. */
export interface PvOwner {
  /** The module is loaded. */
  readonly loaded: boolean;
  /** The PV's slot while it has listeners, otherwise one without data. */
  slotOf(handle: PvHandle): Slot;
  columns(): Columns;
  attach(handle: PvHandle): void;
  detach(handle: PvHandle): void;
}

export class PvHandle implements Pv<unknown> {
  /** Parts that the selection reads; none before it is compiled. */
  mask = 0;
  /** The client's entry of the PV while it has listeners. */
  held: { readonly slot: Slot | undefined } | undefined;
  #owner: PvOwner;
  #selection: Selection;
  #view: View | undefined;
  #error: unknown;
  #listeners = new Listeners();
  #shown: unknown;
  /** Parts that changed since the last snapshot. */
  #changed = ALL_PARTS;

  constructor(
    owner: PvOwner,
    readonly name: string,
    selection: Selection,
    /** The filter of updates, see `filterOf`. */
    readonly filter = "",
  ) {
    this.#owner = owner;
    this.#selection = selection;
  }

  /** PVs with the same key share a slot. */
  get key(): string {
    return this.name + this.filter;
  }

  get listened(): boolean {
    return this.#listeners.all.length > 0;
  }

  /** Compiles the selection if the module is loaded; throws if the selection is wrong. */
  compile(): void {
    if (this.#error !== undefined) throw this.#error as Error;
    if (this.#view !== undefined || !this.#owner.loaded) return;
    try {
      const plan = planSelection(this.#selection);
      this.#view = new View(plan);
      this.mask = plan.mask;
    } catch (error) {
      this.#error = error;
      throw error;
    }
  }

  /** Like `compile`, but leaves the error to `getSnapshot`. */
  prepare(): void {
    try {
      this.compile();
    } catch {
      // `getSnapshot` throws it again.
    }
  }

  /** Something in these parts has changed. Returns the listeners to be called. */
  changed(parts: number): readonly Listener[] {
    this.#changed |= parts;
    return this.#listeners.all;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const first = !this.listened;
    const remove = this.#listeners.add(listener);
    if (first) {
      this.prepare();
      this.#changed = ALL_PARTS;
      this.#owner.attach(this);
    }
    return () => {
      if (remove() && !this.listened) this.#owner.detach(this);
    };
  };

  readonly getSnapshot = (): unknown => {
    this.compile();
    if (this.#view === undefined) return undefined;
    // Without listeners changes are not reported.
    const parts = this.listened ? this.#changed : ALL_PARTS;
    if (parts !== 0) {
      const slot = this.#owner.slotOf(this);
      this.#shown = this.#view.show(slot, this.#owner.columns(), parts);
      this.#changed = 0;
    }
    return this.#shown;
  };
}
