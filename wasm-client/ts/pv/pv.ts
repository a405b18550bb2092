/** One PV with one selection: its listeners, and the snapshot that they read. */

import type { Shown } from "./objects.js";
import { ALL_PARTS, planSelection, show, type Plan, type Selection } from "./plan.js";
import { checkOptions } from "../options.js";
import { Listeners, type ListenerSet } from "../store/readable.js";
import type { Results } from "../store/results.js";
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
  average: boolean,
];

/** Options as one string, empty if they filter nothing. */
export function filterOf(options?: PvOptions): string {
  if (options === undefined) return "";
  checkOptions(options);
  const { average, deadband = 0, every = 1, float32, maxLength, points, rateHz, stride } = options;
  const intervalMs = rateHz === undefined ? 0 : Math.min(Math.ceil(1000 / rateHz), 0x7fffffff);
  const flag = (is: boolean | undefined): 1 | undefined => (is === true ? 1 : undefined);
  const reductions = [stride, maxLength, points, flag(float32), flag(average)];
  const filter = `\n${String([intervalMs, deadband, every, ...reductions])}`;
  return filter === "\n0,0,1,,,,," ? "" : filter;
}

/** The client of a PV's handle. */
export interface PvOwner {
  /** The module is loaded. */
  readonly loaded: boolean;
  /** The PV's slot while it has listeners, otherwise one without data. */
  slotOf(handle: PvHandle): Slot;
  /** By the numbers of handles: 1 if a result was read, so that the next flush makes the next one. */
  readonly isRead: number[];
  attach(handle: PvHandle): void;
  detach(handle: PvHandle): void;
  /** The handle's mask has changed. */
  masked(handle: PvHandle): void;
}

export class PvHandle implements Pv<unknown> {
  /** Parts that the selection reads; none before it is compiled. */
  mask = 0;
  /** Parts that changed since they were last read. */
  parts = ALL_PARTS;
  /** The client's entry of the PV while it has listeners. */
  entry: { readonly slot: Slot | undefined } | undefined;
  /** The entry's slot. */
  slot: Slot | undefined;
  /** Listeners to call on a change. */
  listeners: ListenerSet = [];
  /** The number under which it watches the slot; -1 without a slot. */
  number = -1;
  /** Each flush makes the next result, whether the last one was read or not. */
  isAlwaysRead = false;
  /** The compiled selection. */
  plan: Plan | undefined;
  #owner: PvOwner;
  #selection: Selection;
  #error: unknown;
  #listeners = new Listeners();
  #shown: Shown;

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
    if (this.plan !== undefined || !this.#owner.loaded) return;
    try {
      this.plan = planSelection(this.#selection);
      this.reads(this.plan.mask);
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

  /** Sets the parts whose changes are reported. */
  reads(mask: number): void {
    this.mask = mask;
    this.#owner.masked(this);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const first = !this.listened;
    const remove = this.#listeners.add(listener);
    this.listeners = this.#listeners.set;
    if (first) {
      this.prepare();
      this.parts = ALL_PARTS;
      this.#owner.attach(this);
    }
    return () => {
      const isRemoved = remove();
      this.listeners = this.#listeners.set;
      if (isRemoved && !this.listened) this.#owner.detach(this);
    };
  };

  /** Makes the result from the module's next results, which are those of `parts`. */
  take(results: Results, parts: number): void {
    this.#shown = (this.plan as Plan).show(this.slot as Slot, results, parts, this.#shown);
  }

  readonly getSnapshot = (): unknown => {
    const { slot } = this;
    // Without listeners changes are not reported.
    const parts = slot === undefined ? ALL_PARTS : this.parts;
    if (parts !== 0) {
      this.compile();
      if (this.plan === undefined) return undefined;
      const own = slot ?? this.#owner.slotOf(this);
      this.#shown = show(this.plan, own, parts, this.#shown);
      this.parts = 0;
    }
    if (slot !== undefined) this.#owner.isRead[this.number] = 1;
    return this.#shown;
  };
}
