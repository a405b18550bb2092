/**
 * The `loc://` PVs of one client: values local to the page, shared by its components, without a
 * relay.
 */

import type { Clock } from "../clock.js";
import { showResult, stageWritten, type Page, type Written } from "../store/page.js";
import type { Slot } from "../store/slot.js";
import type { PutResult, PutValue } from "../types.js";
import { failedPut, type PagePv } from "./page_pv.js";

export class Locals {
  /** The PVs with listeners, one for each way to write a name, by the name that identifies them. */
  #users = new Map<string, Set<PagePv>>();
  /** Arrays in the types in which they were written, by the same name. */
  #written = new Map<string, Written>();
  #page: Page;
  #clock: Clock;
  #onChange: () => void;

  /** `onChange` is called when the value shown by a slot changes. */
  constructor(page: Page, clock: Clock, onChange: () => void) {
    this.#page = page;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Shows the value of a local PV that has its first listener, or another slot. */
  attach(pv: PagePv, slot: Slot): void {
    this.#onChange();
    const key = this.#page.open_local(pv.name, this.#clock.epochMs());
    if (key === undefined) {
      slot.wasm.core.refuse(slot.index, this.#page.error());
      return;
    }
    const users = this.#users.get(key) ?? new Set();
    this.#users.set(key, users.add(pv));
    showResult(slot, this.#page, this.#written.get(key));
  }

  detach(pv: PagePv): void {
    for (const users of this.#users.values()) users.delete(pv);
  }

  /** Writes a local PV, which keeps its type. */
  put(name: string, value: PutValue): PutResult {
    const page = this.#page;
    const now = this.#clock.epochMs();
    if (page.open_local(name, now) === undefined) return failedPut(name, "BAD_NAME", page.error());
    const problem = stageWritten(page, value);
    if (problem !== undefined) return failedPut(name, "BAD_VALUE", problem);
    const key = page.write_local(name, now);
    if (key === undefined) return failedPut(name, "BAD_VALUE", page.error());
    const type = page.staged_type();
    // A copy, because the application may change its array later.
    const written = type === 0 ? undefined : { bytes: page.staged_array(), type };
    if (written === undefined) this.#written.delete(key);
    else this.#written.set(key, written);
    for (const { slot } of this.#users.get(key) ?? []) {
      if (slot !== undefined) showResult(slot, page, written);
    }
    this.#onChange();
    return { ok: true, superseded: false };
  }
}
