/** Subscriptions of one client at its relay: the PVs to be subscribed, described and removed. */

import type { Link } from "../link/link.js";
import { DESCRIBES } from "../pv/plan.js";
import { isOfPage } from "../pv/page_pv.js";
import type { FilterNumbers, PvHandle } from "../pv/pv.js";
import type { Slot } from "../store/slot.js";
import { soon } from "../lazy.js";

/** Maximum number of ids in one Unsubscribe or Describe. */
const MAX_IDS = 10_000;

/** A PV that has listeners, or had some until recently. */
export interface PvEntry {
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
  #wanted = new Set<PvEntry>();
  #link: Link;
  #entries: ReadonlyMap<string, PvEntry>;
  // A page that mounts requests all its PVs at once.
  #subscribeSoon = soon(() => {
    this.#subscribe();
  });
  /** Requests descriptions that selections read and that haven't been requested yet. */
  readonly describe = soon(() => {
    this.#describe();
  });

  constructor(link: Link, entries: ReadonlyMap<string, PvEntry>) {
    this.#link = link;
    this.#entries = entries;
  }

  want(entry: PvEntry): void {
    this.#wanted.add(entry);
    this.#subscribeSoon();
  }

  forget(entry: PvEntry): void {
    this.#wanted.delete(entry);
  }

  /** Releases slots; the relay ends their subscriptions. */
  remove(slots: readonly number[]): void {
    this.#inPieces(slots, ({ core }, some) => core.remove(some));
  }

  /** The connection is open: everything is requested again. */
  opened(): void {
    for (const entry of this.#entries.values()) {
      entry.isDescribed = false;
      if (!isOfPage(entry.name)) this.#wanted.add(entry);
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
    const [{ filter }] = this.#wanted as unknown as [PvEntry];
    // A request has one filter; the other PVs follow after the answer.
    const wanted = [...this.#wanted].filter((entry) => entry.filter === filter);
    const slots = Uint32Array.from(wanted, (entry) => entry.slot?.index ?? 0);
    const numbers = (filter || "0,0").split(",").map(Number) as unknown as FilterNumbers;
    this.isOpen = true;
    this.#link.request(({ core }) => {
      const request = core.subscribe(slots, ...numbers);
      for (const entry of wanted.slice(0, core.taken())) this.#wanted.delete(entry);
      return request;
    });
  }

  /** Only PVs whose ids are known can be described. */
  #describe(): void {
    if (this.isOpen || !this.#link.isOpen) return;
    const wanted = [...this.#entries.values()].filter(
      (entry) =>
        !entry.isDescribed &&
        entry.slot !== undefined &&
        !isOfPage(entry.name) &&
        !this.#wanted.has(entry) &&
        entry.handles.some((handle) => (handle.mask & DESCRIBES) !== 0),
    );
    for (const entry of wanted) entry.isDescribed = true;
    const slots = wanted.map((entry) => entry.slot?.index ?? 0);
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
