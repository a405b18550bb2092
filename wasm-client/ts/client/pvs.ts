/** The PVs of one client: their slots in the module, their listeners, and when listeners are called. */

import type { Clock, Timer } from "../clock.js";
import type { Link } from "../link/link.js";
import { ALARM, ALL_PARTS, CONNECTION, DESCRIBES, type Plan } from "../pv/plan.js";
import type { OfPage } from "../pv/of_page.js";
import { isOfPage } from "../pv/page_pv.js";
import { isLocal, type PvHandle, type PvOwner } from "../pv/pv.js";
import { isLoaded, Wasm, type ArrayRow } from "../store/core.js";
import { Flusher } from "../store/flush.js";
import { Listeners, Round } from "../store/readable.js";
import { ALWAYS, EXECUTED, NEW, WANTS_ELEMENTS, WATCHER } from "../store/results.js";
import { Slot } from "../store/slot.js";
import type { ClientOptions } from "../types.js";
import { Lazy } from "../lazy.js";
import { Subscriptions, type PvEntry } from "./subscriptions.js";

/** The parts of each PV that a count of all PVs by state and severity depends on. */
const COUNTED = ALARM | CONNECTION;

export class Pvs implements PvOwner {
  /** `undefined` until it is loaded and needed. */
  wasm: Wasm | undefined;
  /** PVs by name and filter. */
  readonly entries = new Map<string, PvEntry>();
  readonly isRead: number[] = [];
  readonly subscriptions: Subscriptions;
  /** The `loc://` PVs and formulas. */
  readonly ofPage: Lazy<OfPage>;
  /** Calls the listeners of changed PVs, at most once per animation frame. */
  readonly flusher = new Flusher(() => {
    this.#flush();
  });
  #options: ClientOptions;
  #clock: Clock;
  #onUsed: () => void;
  /** A slot without data, from which PVs without a slot are read. */
  #blank = 0;
  #bySlot: (PvEntry | undefined)[] = [];
  /** The handles with listeners, by the numbers under which they watch slots in the module. */
  #watching: (PvHandle | undefined)[] = [];
  #freeNumbers: number[] = [];
  /** Slots of the PVs that have listeners; `undefined` if these may have changed. */
  #listened: readonly Slot[] | undefined;
  #counters = new Listeners();
  #idleTimer: Timer | undefined;

  /** `onUsed` is called when a PV gets its first listener. */
  constructor(options: ClientOptions, clock: Clock, link: Link, onUsed: () => void) {
    this.#options = options;
    this.#clock = clock;
    this.#onUsed = onUsed;
    this.subscriptions = new Subscriptions(link, this.entries);
    this.ofPage = new Lazy(async () => {
      const { OfPage } = await import("../pv/of_page.js");
      const onChange = (): void => {
        this.flusher.later();
      };
      return OfPage.load(options, this, clock, onChange);
    });
  }

  get loaded(): boolean {
    return isLoaded(this.#options.wasm);
  }

  /**
   * The client's state in the module, also for other entries of the package; only when `loaded`.
   */
  core(): Wasm {
    return this.wasm ?? this.renew();
  }

  slotOf(handle: PvHandle): Slot {
    const { slot } = handle.entry ?? this.entries.get(handle.key) ?? handle;
    return slot ?? new Slot(this.core(), handle.name, this.#blank);
  }

  masked({ entry }: PvHandle): void {
    if (entry !== undefined) this.#link(entry as PvEntry);
  }

  attach(handle: PvHandle): void {
    this.#onUsed();
    const { key, name, filter } = handle;
    let entry = this.entries.get(key);
    if (entry === undefined) {
      entry = {
        name,
        filter,
        handles: [],
        slot: undefined,
        idleUntil: Infinity,
        isDescribed: false,
      };
      this.entries.set(key, entry);
      if (this.wasm !== undefined) this.#place(entry, this.wasm);
    }
    const isFirst = entry.handles.length === 0;
    if (isFirst) this.#recount();
    entry.handles = [...entry.handles, handle];
    entry.idleUntil = Infinity;
    handle.entry = entry;
    this.#link(entry);
    if (isFirst && isOfPage(name)) this.ofPage.value?.resume();
    // A subscribed PV's description is requested now, another PV's after the answer to its
    // Subscribe.
    if (!entry.isDescribed && (handle.mask & DESCRIBES) !== 0) this.subscriptions.describe();
  }

  detach(handle: PvHandle): void {
    const entry = this.entries.get(handle.key);
    handle.entry = undefined;
    handle.slot = undefined;
    if (handle.number >= 0) {
      this.#watching[handle.number] = undefined;
      this.#freeNumbers.push(handle.number);
      handle.number = -1;
    }
    if (entry === undefined) return;
    entry.handles = entry.handles.filter((other) => other !== handle);
    this.#link(entry);
    if (entry.handles.length > 0) return;
    this.#recount();
    entry.idleUntil = this.#clock.now() + (this.#options.unsubscribeDelayMs ?? 2000);
    this.#giveBackLater();
  }

  /** Slots of the PVs that have listeners, one per name. */
  listened(): readonly Slot[] {
    if (this.#listened === undefined) {
      const listened = [...this.entries.values()].filter(({ handles }) => handles.length > 0);
      const slots = new Map(listened.map(({ name, slot }) => [name, slot]));
      this.#listened = [...slots.values()].filter((slot) => slot !== undefined);
    }
    return this.#listened;
  }

  /**
   * Calls `listener` when a count of all listened PVs by state and severity may have changed, in
   * the flush that reports the change: a count and the values shown next to it belong to the same
   * moment.
   */
  onCounted(listener: () => void): () => void {
    this.#onUsed();
    return this.#counters.add(listener);
  }

  /** Replaces the module's state, with a slot for each PV, and calls all listeners. */
  renew(): Wasm {
    const wasm = new Wasm();
    this.wasm = wasm;
    this.#blank = wasm.add("");
    this.#bySlot = [];
    this.#watching = [];
    this.#freeNumbers = [];
    this.isRead.length = 0;
    this.#listened = undefined;
    const round = new Round();
    for (const entry of this.entries.values()) {
      for (const handle of entry.handles) handle.number = -1;
      this.#place(entry, wasm);
      for (const handle of entry.handles) {
        handle.prepare();
        handle.parts = ALL_PARTS;
        round.add(handle.listeners);
      }
    }
    round.add(this.#counters.set);
    round.call();
    return wasm;
  }

  /**
   * The connection is open: until its snapshot arrives, a PV's shown state follows the connection.
   */
  opened(): void {
    const wasm = this.core();
    wasm.core.remove(Uint32Array.of(this.#blank));
    this.#blank = wasm.add("");
    this.subscriptions.opened();
  }

  /** The connection was lost. */
  lost(nowMs: number, heardMs: number): void {
    this.subscriptions.isOpen = false;
    this.wasm?.core.relay_lost(nowMs, heardMs);
    this.flusher.later();
    this.giveBack();
  }

  /**
   * The relay has stopped answering (`heardMs`), or answers again (NaN): updates the state of its
   * PVs.
   */
  silent(heardMs: number): void {
    if (this.wasm === undefined) return;
    this.wasm.heardMs = heardMs;
    for (const { slot } of this.entries.values()) {
      if (slot?.needsRelay === true) this.wasm.core.touch(slot.index);
    }
    this.#flush();
  }

  /** A Subscribe was answered or refused. */
  subscribed(): void {
    this.subscriptions.answered();
    this.giveBack();
  }

  /** PVs that the relay had no room for before are subscribed now that there is room. */
  unsubscribed(): void {
    for (const slot of this.core().core.take_without_room()) {
      const entry = this.#bySlot[slot];
      if (entry !== undefined) this.subscriptions.want(entry);
    }
  }

  /** Stores the arrays of a message: slot, offset in `data`, count and type of each. */
  keepArrays(arrays: Uint32Array, data: ArrayBuffer): void {
    for (let at = 0; at < arrays.length; at += 4) {
      const [slot, ...place] = arrays.subarray(at, at + 4) as unknown as ArrayRow;
      this.#bySlot[slot]?.slot?.keepArray(data, ...place);
    }
  }

  /** Releases PVs that have had no listeners for `unsubscribeDelayMs`. */
  giveBack(): void {
    // The answer to an open Subscribe may contain one of these PVs again, under another name.
    if (this.subscriptions.isOpen) return;
    const now = this.#clock.now();
    const slots: number[] = [];
    for (const entry of this.entries.values()) {
      if (entry.idleUntil > now) continue;
      this.entries.delete(entry.name + entry.filter);
      this.subscriptions.forget(entry);
      if (entry.slot === undefined) continue;
      this.#bySlot[entry.slot.index] = undefined;
      if (isOfPage(entry.name)) this.ofPage.value?.detach(entry);
      slots.push(entry.slot.index);
    }
    this.subscriptions.remove(slots);
    this.#giveBackLater();
  }

  /** Stops the timer for releasing PVs. */
  stop(): void {
    this.#clock.clearTimeout(this.#idleTimer);
  }

  #giveBackLater(): void {
    if (this.#idleTimer !== undefined) return;
    let due = Infinity;
    for (const { idleUntil } of this.entries.values()) due = Math.min(due, idleUntil);
    if (due === Infinity) return;
    this.#idleTimer = this.#clock.setTimeout(
      () => {
        this.#idleTimer = undefined;
        this.giveBack();
      },
      Math.max(0, due - this.#clock.now()),
    );
  }

  #recount(): void {
    this.#listened = undefined;
    if (this.#counters.all.length > 0) this.flusher.later();
  }

  /** Assigns a slot to a PV and subscribes it. */
  #place(entry: PvEntry, wasm: Wasm): void {
    entry.slot = new Slot(wasm, entry.name, wasm.add(entry.name));
    this.#bySlot[entry.slot.index] = entry;
    this.#link(entry);
    if (isOfPage(entry.name)) this.#placeOfPage(entry, entry.slot);
    else this.subscriptions.want(entry);
  }

  #placeOfPage(entry: PvEntry, slot: Slot): void {
    if (isLocal(entry.name) && this.ofPage.value !== undefined) {
      this.ofPage.value.attach(entry);
      return;
    }
    // A formula always later, because it adds PVs itself.
    this.ofPage.load().then(
      (ofPage) => {
        // The PV may have been released meanwhile, or have another slot.
        if (this.#bySlot[slot.index] === entry && entry.slot === slot) ofPage.attach(entry);
      },
      (error: unknown) => {
        if (this.#bySlot[slot.index] !== entry || entry.slot !== slot) return;
        slot.wasm.core.refuse(slot.index, error instanceof Error ? error.message : String(error));
        this.flusher.later();
      },
    );
  }

  /** Tells the module the handles of a PV, and them their slot. */
  #link({ handles, slot }: PvEntry): void {
    if (slot === undefined) return;
    const watchers: number[] = [];
    for (const handle of handles) {
      handle.slot = slot;
      let mask = (handle.mask & ~(ALWAYS | NEW)) | (handle.isAlwaysRead ? ALWAYS : 0);
      if (handle.number < 0) {
        mask |= NEW;
        this.#number(handle);
      }
      const { number = 0, needs = 0 } = handle.plan ?? {};
      watchers.push(handle.number, (number << 4) | needs, mask);
    }
    slot.wasm.core.watch(slot.index, Uint32Array.from(watchers));
  }

  /** Gives a handle the number under which it watches a slot. */
  #number(handle: PvHandle): void {
    handle.number = this.#freeNumbers.pop() ?? this.#watching.length;
    this.#watching[handle.number] = handle;
    this.isRead[handle.number] = 0;
  }

  /** Calls the listeners whose selections read a part that changed. */
  #flush(): void {
    const { wasm } = this;
    if (wasm === undefined) return;
    this.ofPage.value?.flush(wasm);
    const { heardMs, results } = wasm;
    const changed = results.flush(heardMs, this.isRead);
    const round = new Round(changed.length / 2 + 1);
    const later: PvHandle[] = [];
    for (let at = 0; at < changed.length; at += 2) {
      const number = changed[at] as number;
      const parts = changed[at + 1] as number;
      const handle = this.#watching[number & WATCHER] as PvHandle;
      round.add(handle.listeners);
      if (number >= EXECUTED) {
        handle.take(results, parts);
      } else {
        handle.parts |= parts;
        if (number >= WANTS_ELEMENTS) later.push(handle);
      }
    }
    if (later.length > 0) {
      for (const { plan, slot, parts } of later) results.add(plan as Plan, slot as Slot, parts);
      results.run(heardMs);
      for (const handle of later) {
        handle.take(results, handle.parts);
        handle.parts = 0;
      }
    }
    if (this.#listened === undefined || (results.changed & COUNTED) !== 0) {
      round.add(this.#counters.set);
    }
    round.call();
  }
}
