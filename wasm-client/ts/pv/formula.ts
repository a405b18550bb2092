/**
 * The formulas of one client: subscribes to their inputs and evaluates them at most once per flush.
 */

import type { Clock } from "../clock.js";
import type { Wasm } from "../store/core.js";
import { inputSelection, readInputs, showResult, type Page } from "../store/page.js";
import type { Slot } from "../store/slot.js";
import { formulaOf, isOfPage, type PagePv } from "./page_pv.js";
import { planSelection } from "./plan.js";
import { isLocal, PvHandle, type PvOwner } from "./pv.js";

/** What an evaluation returns, see `page/src/lib.rs`. */
const IS_REFUSED = 1;
const HAS_RESULT = 2;
const LEADER_SHIFT = 2;

/** The parts that formulas read: value, time, alarm, metadata and connection. */
const READ_PARTS = 31;

/** A PV that formulas read, with one filter. */
interface Input {
  /** Its number in the module. */
  readonly number: number;
  readonly handle: PvHandle;
  readonly release: () => void;
  readonly users: Set<Formula>;
}

interface Formula {
  readonly pv: PagePv;
  /** Its number in the module. */
  readonly number: number;
  readonly inputs: readonly Input[];
}

export class Formulas {
  #formulas = new Map<PagePv, Formula>();
  /** By name and filter. */
  #inputs = new Map<string, Input>();
  #free: number[] = [];
  /** By slot. */
  #bySlot = new Map<number, Input>();
  /** Inputs that haven't been read yet. */
  #unread = new Set<Input>();
  /** New formulas, and those whose inputs have changed. */
  #due = new Set<Formula>();
  /** The slots are those of this state of the module. */
  #wasm: Wasm | undefined;
  /** What is read of inputs. */
  #plan = planSelection(inputSelection());
  #page: Page;
  #owner: PvOwner;
  #clock: Clock;
  #onChange: () => void;

  /** `onChange` is called when formulas must be evaluated. */
  constructor(page: Page, owner: PvOwner, clock: Clock, onChange: () => void) {
    this.#page = page;
    this.#owner = owner;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Called when a formula gets its first listener, or another slot. */
  attach(pv: PagePv, slot: Slot): void {
    this.#onChange();
    const known = this.#formulas.get(pv);
    if (known !== undefined) {
      this.#page.restart(known.number);
      this.#due.add(known);
      return;
    }
    const number = this.#page.add_formula(formulaOf(pv.name) ?? "");
    if (number === undefined) {
      slot.wasm.core.refuse(slot.index, this.#page.error());
      return;
    }
    const inputs = this.#page.names(number).map((name) => this.#input(name, pv.filter));
    this.#page.link(
      number,
      Uint32Array.from(inputs, (input) => input.number),
    );
    const formula = { pv, number, inputs };
    for (const input of inputs) input.users.add(formula);
    this.#formulas.set(pv, formula);
    this.#due.add(formula);
  }

  detach(pv: PagePv): void {
    const formula = this.#formulas.get(pv);
    if (formula === undefined) return;
    this.#formulas.delete(pv);
    this.#due.delete(formula);
    this.#page.remove_formula(formula.number);
    for (const input of formula.inputs) {
      input.users.delete(formula);
      if (input.users.size > 0) continue;
      this.#inputs.delete(input.handle.key);
      this.#unread.delete(input);
      for (const [index, other] of this.#bySlot) if (other === input) this.#bySlot.delete(index);
      this.#free.push(input.number);
      this.#page.remove_input(input.number);
      input.release();
    }
  }

  /** Called when a formula has listeners again; it may have missed changes of its inputs. */
  resume(): void {
    if (this.#due.size > 0) this.#onChange();
  }

  /** Whether a formula reads a PV of the relay, also through other formulas; not before all are attached. */
  needsRelay(pv: PagePv): boolean {
    const inputs = this.#formulas.get(pv)?.inputs ?? [];
    return inputs.some(({ handle }) =>
      isOfPage(handle.name) ? this.needsRelay(handle.entry as PagePv) : true,
    );
  }

  /** Evaluates the formulas whose inputs have changed, inputs of other formulas first. */
  flush(wasm: Wasm): void {
    if (this.#formulas.size === 0) return;
    let changed = this.#changed(wasm);
    const nowMs = this.#clock.epochMs();
    const utcOffsetSeconds = -60 * new Date(nowMs).getTimezoneOffset();
    for (;;) {
      this.#read(changed, wasm);
      changed = new Map();
      const ready = [...this.#due].filter((formula) => this.#isReady(formula));
      if (ready.length === 0) return;
      for (const formula of ready) {
        const slot = this.#evaluate(formula, nowMs, utcOffsetSeconds);
        const own = this.#bySlot.get(slot.index);
        if (own !== undefined) changed.set(own, slot);
      }
    }
  }

  /** Subscribes to an input. Cycles are impossible, because no text contains itself. */
  #input(name: string, formulaFilter: string): Input {
    const filter = isLocal(name) ? "" : formulaFilter;
    let input = this.#inputs.get(name + filter);
    if (input === undefined) {
      const handle = new PvHandle(this.#owner, name, "{ id }", filter);
      const release = handle.subscribe(() => undefined);
      handle.reads(READ_PARTS);
      input = { number: this.#free.pop() ?? this.#inputs.size, handle, release, users: new Set() };
      this.#inputs.set(handle.key, input);
      this.#unread.add(input);
    }
    return input;
  }

  /** New and changed inputs, with their slots. */
  #changed(wasm: Wasm): Map<Input, Slot> {
    const changed = new Map<Input, Slot>();
    if (this.#wasm !== wasm) {
      this.#wasm = wasm;
      this.#bySlot.clear();
      this.#unread = new Set(this.#inputs.values());
    }
    for (const input of this.#unread) {
      const slot = input.handle.entry?.slot;
      if (slot === undefined) continue;
      this.#unread.delete(input);
      this.#bySlot.set(slot.index, input);
      changed.set(input, slot);
    }
    for (const index of wasm.dirty()) {
      const input = this.#bySlot.get(index);
      const slot = input?.handle.entry?.slot;
      if (input === undefined || slot === undefined) continue;
      if ((wasm.core.changed(index) & READ_PARTS) !== 0) changed.set(input, slot);
    }
    return changed;
  }

  #read(inputs: ReadonlyMap<Input, Slot>, wasm: Wasm): void {
    const slots = Array.from(inputs, ([{ number }, slot]) => ({ number, slot }));
    readInputs(this.#page, wasm, this.#plan.number, slots);
    for (const { users } of inputs.keys()) for (const formula of users) this.#due.add(formula);
  }

  /** Whether it has listeners, and none of its inputs is a formula that must be evaluated first. */
  #isReady({ inputs, pv }: Formula): boolean {
    if (pv.handles.length === 0 || pv.slot === undefined) return false;
    return !inputs.some(({ handle }) => {
      const before = this.#formulas.get(handle.entry as PagePv);
      return before !== undefined && this.#due.has(before);
    });
  }

  /** Returns the formula's slot. */
  #evaluate(formula: Formula, nowMs: number, utcOffsetSeconds: number): Slot {
    this.#due.delete(formula);
    const { pv, number, inputs } = formula;
    const slot = pv.slot as Slot;
    const { core } = slot.wasm;
    slot.needsRelay = inputs.some(({ handle }) => handle.entry?.slot?.needsRelay ?? true);
    const outcome = this.#page.evaluate(number, nowMs, utcOffsetSeconds);
    const leader = inputs[(outcome >>> LEADER_SHIFT) - 1]?.handle.entry?.slot;
    const hasResult = (outcome & HAS_RESULT) !== 0;
    if (leader !== undefined) core.follow(slot.index, leader.index, hasResult);
    if ((outcome & IS_REFUSED) !== 0) core.refuse(slot.index, this.#page.error());
    if (hasResult) showResult(slot, this.#page);
    return slot;
  }
}
