/** Subscriptions of one client at its relay: the PVs to be subscribed, described and removed. */

import type { Link } from "../link/link.js";
import { DESCRIBES } from "../pv/plan.js";
import { isOfPage } from "../pv/page_pv.js";
import type { FilterNumbers, PvHandle } from "../pv/pv.js";
import type { Slot } from "../store/slot.js";
import { soon } from "./lazy.js";

/** Maximum number of ids in one Unsubscribe or Describe. */
const MAX_IDS = 10_000;

/** A PV that has listeners, or had some until recently. */
export interface Held {
  readonly name: string;
  readonly filter: string;
  handles: readonly PvHandle[];
  /** Set once the module is loaded. */
  slot: Slot | undefined;
  /** When the PV is released; `Infinity` while it has listeners. */
  idleUntil: number;
  /** Its description was requested on this connection. */
  isDescribed: boolean;
}

export class Subscriptions {
  /** A Subscribe is waiting for its answer. */
  isOpen = false;
  /** PVs to be subscribed, in order, each with its filter. */
  #wanted = new Set<Held>();
  #link: Link;
  #held: ReadonlyMap<string, Held>;
  // A page that mounts requests all its PVs at once.
  #subscribeSoon = soon(() => {
    this.#subscribe();
  });
  /** Requests descriptions that selections read and that haven't been requested yet. */
  readonly describe = soon(() => {
    this.#describe();
  });

  constructor(link: Link, held: ReadonlyMap<string, Held>) {
    this.#link = link;
    this.#held = held;
  }

  want(held: Held): void {
    this.#wanted.add(held);
    this.#subscribeSoon();
  }

  forget(held: Held): void {
    this.#wanted.delete(held);
  }

  /** Releases slots; the relay ends their subscriptions. */
  remove(slots: readonly number[]): void {
    this.#inPieces(slots, ({ core }, some) => core.remove(some));
  }

  /** The connection is open: everything is requested again. */
  opened(): void {
    for (const held of this.#held.values()) {
      held.isDescribed = false;
      if (!isOfPage(held.name)) this.#wanted.add(held);
    }
    this.#subscribe();
  }

  /** The last Subscribe was answered. */
  answered(): void {
    this.isOpen = false;
    this.#describe();
    this.#subscribe();
  }

  /** Sends the pending subscriptions, one request after another. */
  #subscribe(): void {
    if (this.isOpen || this.#wanted.size === 0 || !this.#link.isOpen) return;
    const [{ filter }] = this.#wanted as unknown as [Held];
    // A request has one filter; the other PVs follow after the answer.
    const wanted = [...this.#wanted].filter((held) => held.filter === filter);
    const slots = Uint32Array.from(wanted, (held) => held.slot?.index ?? 0);
    const numbers = (filter || "0,0").split(",").map(Number) as unknown as FilterNumbers;
    this.isOpen = true;
    this.#link.request(({ core }) => {
      const request = core.subscribe(slots, ...numbers);
      for (const held of wanted.slice(0, core.taken())) this.#wanted.delete(held);
      return request;
    });
  }

  /** Only PVs whose ids are known can be described. */
  #describe(): void {
    if (this.isOpen || !this.#link.isOpen) return;
    const wanted = [...this.#held.values()].filter(
      (held) =>
        !held.isDescribed &&
        held.slot !== undefined &&
        !isOfPage(held.name) &&
        !this.#wanted.has(held) &&
        held.handles.some((handle) => (handle.mask & DESCRIBES) !== 0),
    );
    for (const held of wanted) held.isDescribed = true;
    const slots = wanted.map((held) => held.slot?.index ?? 0);
    this.#inPieces(slots, ({ core }, some) => core.describe(some));
  }

  #inPieces(
    slots: readonly number[],
    make: (wasm: Slot["wasm"], some: Uint32Array) => Uint8Array,
  ): void {
    for (let at = 0; at < slots.length; at += MAX_IDS) {
      const some = Uint32Array.from(slots.slice(at, at + MAX_IDS));
      this.#link.request((wasm) => make(wasm, some));
    }
  }
}
