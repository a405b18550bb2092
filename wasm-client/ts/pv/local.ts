/**
 * The `loc://` PVs of one client: values local to the page, shared by its components, without a
 * relay.
 */

import type { Core } from "../../pkg/pvwire_wasm.js";
import type { Clock } from "../clock.js";
import { PutError } from "../errors.js";
import type { Slot } from "../store/slot.js";
import type { PutResult, PutValue } from "../types.js";
import { stageValue } from "../store/value.js";

interface Local {
  value: PutValue;
  /** One slot for each spelling that has listeners. */
  readonly slots: Set<Slot>;
}

/** `loc://name(initial)`: the name without the initial value, and that value. */
function parse(name: string): { bare: string; initial: PutValue } | string {
  const [, bare = "", , text] = /^loc:\/\/([^()\s]+)(\((.*)\))?$/s.exec(name) ?? [];
  if (bare === "") return "a local PV is written loc://name or loc://name(initial value)";
  if (text === undefined) return { bare, initial: 0 };
  try {
    const initial = JSON.parse(text) as unknown;
    const list = Array.isArray(initial) ? (initial as unknown[]) : [initial];
    const same = new Set(list.map((entry) => typeof entry));
    const [only = "number"] = same;
    if (same.size <= 1 && ["number", "string", "boolean"].includes(only)) {
      return { bare, initial: initial as PutValue };
    }
  } catch {
    // Reported below.
  }
  return `invalid initial value ${text}: write a number, "text", or a list of either`;
}

export class Locals {
  #locals = new Map<string, Local>();
  #core: () => Core;
  #clock: Clock;
  #onChange: () => void;

  /** `onChange` is called when the value shown by a slot changes. */
  constructor(core: () => Core, clock: Clock, onChange: () => void) {
    this.#core = core;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** A local PV has its first listener: shows its value. */
  attach(slot: Slot): void {
    const core = this.#core();
    this.#onChange();
    const parsed = parse(slot.name);
    if (typeof parsed === "string") {
      core.refuse(slot.index, parsed);
      return;
    }
    const local = this.#local(parsed);
    local.slots.add(slot);
    this.#show(core, slot, local.value);
  }

  detach(slot: Slot): void {
    const parsed = parse(slot.name);
    if (typeof parsed !== "string") this.#locals.get(parsed.bare)?.slots.delete(slot);
  }

  /** Writes; a local PV keeps its type. */
  put(name: string, value: PutValue): PutResult {
    const core = this.#core();
    const parsed = parse(name);
    if (typeof parsed === "string") return failed(name, "BAD_NAME", parsed);
    const problem = stageValue(core, value);
    if (problem !== undefined) return failed(name, "BAD_VALUE", problem);
    const local = this.#local(parsed);
    const fitting = fit(value, local.value);
    if (fitting === undefined) {
      return failed(
        name,
        "BAD_VALUE",
        `${JSON.stringify(value)} is not a number, but the PV holds one`,
      );
    }
    local.value = fitting;
    for (const slot of local.slots) this.#show(core, slot, fitting);
    this.#onChange();
    return { ok: true, superseded: false };
  }

  #local({ bare, initial }: { bare: string; initial: PutValue }): Local {
    let local = this.#locals.get(bare);
    if (local === undefined) {
      local = { value: initial, slots: new Set() };
      this.#locals.set(bare, local);
    }
    return local;
  }

  #show(core: Core, slot: Slot, value: PutValue): void {
    stageValue(core, value);
    core.set_local(slot.index, digitsOf(value), this.#clock.epochMs());
    if (typeof value !== "object") return;
    // A copy, because the application may change its array later.
    const bytes = core.staged_array();
    if (bytes.length === 0 && value.length > 0) return;
    const type = core.staged_type();
    slot.keepArray(bytes.buffer as ArrayBuffer, bytes.byteOffset, value.length, type);
  }
}

/** Decimal places of the shortest text that reads back as the same number. */
function digitsOf(value: PutValue): number {
  const [, places = ""] = /\.(\d+)$/.exec(String(value)) ?? [];
  return places.length;
}

/** The value in the PV's type: a number's text becomes a number, a number becomes text. */
function fit(value: PutValue, held: PutValue): PutValue | undefined {
  if (typeof held === "string") return typeof value === "object" ? value : String(value);
  if (typeof value !== "string" || typeof held === "object") return value;
  const number = Number(value);
  return value.trim() === "" || Number.isNaN(number) ? undefined : number;
}

function failed(name: string, code: string, message: string): PutResult {
  return { ok: false, error: new PutError(name, code, message, false) };
}
