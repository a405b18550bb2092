/**
 * The formulas of one client: subscribes to their inputs and evaluates them at most once per flush.
 */

import type { Clock } from "../clock.js";
import type { Columns, Wasm } from "../store/core.js";
import { setInput, showResult, type Page } from "../store/page.js";
import { Kind, type Slot } from "../store/slot.js";
import { formulaOf, type PagePv } from "./page_pv.js";
import { isLocal, PvHandle, type PvOwner } from "./pv.js";

/** Values of the state column. */
const CONNECTED = 2;
const REFUSED = 5;

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
      this.#page.clear_input(input.number);
      input.release();
    }
  }

  /** Called when a formula has listeners again; it may have missed changes of its inputs. */
  resume(): void {
    if (this.#due.size > 0) this.#onChange();
  }

  /** Evaluates the formulas whose inputs have changed, inputs of other formulas first. */
  flush(wasm: Wasm): void {
    if (this.#formulas.size === 0) return;
    this.#gather(wasm);
    let ready: Formula[];
    do {
      ready = [...this.#due].filter((formula) => this.#isReady(formula));
      for (const formula of ready) this.#evaluate(formula, wasm);
    } while (ready.length > 0);
  }

  /** Subscribes to an input. Cycles are impossible, because no text contains itself. */
  #input(name: string, formulaFilter: string): Input {
    const filter = isLocal(name) ? "" : formulaFilter;
    let input = this.#inputs.get(name + filter);
    if (input === undefined) {
      const handle = new PvHandle(this.#owner, name, "{ id }", filter);
      const release = handle.subscribe(() => undefined);
      input = { number: this.#free.pop() ?? this.#inputs.size, handle, release, users: new Set() };
      this.#inputs.set(handle.key, input);
      this.#unread.add(input);
    }
    return input;
  }

  /** Reads new and changed inputs. */
  #gather(wasm: Wasm): void {
    if (this.#wasm !== wasm) {
      this.#wasm = wasm;
      this.#bySlot.clear();
      this.#unread = new Set(this.#inputs.values());
    }
    for (const input of this.#unread) {
      const slot = input.handle.held?.slot;
      if (slot === undefined) continue;
      this.#unread.delete(input);
      this.#bySlot.set(slot.index, input);
      this.#read(input, slot, wasm.columns);
    }
    const { parts } = wasm.columns;
    for (const index of wasm.dirty()) {
      const input = this.#bySlot.get(index);
      const slot = input?.handle.held?.slot;
      if (input === undefined || slot === undefined) continue;
      if (((parts[index] as number) & READ_PARTS) === 0) continue;
      this.#read(input, slot, wasm.columns);
    }
  }

  #read(input: Input, slot: Slot, columns: Columns): void {
    const hasValue =
      columns.state[slot.index] === CONNECTED && columns.kind[slot.index] !== Kind.none;
    if (hasValue) setInput(slot, columns, this.#page, input.number);
    else this.#page.clear_input(input.number);
    for (const formula of input.users) this.#due.add(formula);
  }

  /** Whether it has listeners, and none of its inputs is a formula that must be evaluated first. */
  #isReady({ inputs, pv }: Formula): boolean {
    if (pv.handles.length === 0 || pv.slot === undefined) return false;
    return !inputs.some(({ handle }) => {
      const before = this.#formulas.get(handle.held as PagePv);
      return before !== undefined && this.#due.has(before);
    });
  }

  #evaluate(formula: Formula, wasm: Wasm): void {
    this.#due.delete(formula);
    const { pv, number, inputs } = formula;
    const slot = pv.slot as Slot;
    slot.needsRelay = inputs.some(({ handle }) => handle.held?.slot?.needsRelay ?? true);
    const leader = leaderOf(inputs, wasm.columns);
    if (leader !== undefined) follow(slot, leader);
    const nowMs = this.#clock.epochMs();
    const utcOffsetSeconds = -60 * new Date(nowMs).getTimezoneOffset();
    if (this.#page.evaluate(number, nowMs, utcOffsetSeconds)) showResult(slot, this.#page, false);
    const own = this.#bySlot.get(slot.index);
    if (own !== undefined) this.#read(own, slot, wasm.columns);
  }
}

/**
 * The slot of the input that gives the formula its connection state: the first one that is not
 * connected, otherwise one whose server doesn't answer, otherwise the one that was connected last.
 */
function leaderOf(inputs: readonly Input[], columns: Columns): Slot | undefined {
  const rank = ({ index }: Slot): readonly [boolean, boolean, number] => [
    columns.state[index] !== CONNECTED,
    !Number.isNaN(columns.heardMs[index]),
    columns.sinceMs[index] as number,
  ];
  let leader: Slot | undefined;
  for (const { handle } of inputs) {
    const slot = handle.held?.slot;
    if (slot === undefined) continue;
    const [isGone, isSilent, sinceMs] = rank(slot);
    if (isGone) return slot;
    const [, isLeaderSilent, leaderMs] = leader === undefined ? [] : rank(leader);
    if (leader === undefined || (isSilent && !isLeaderSilent)) leader = slot;
    else if (isSilent === isLeaderSilent && sinceMs > (leaderMs ?? 0)) leader = slot;
  }
  return leader;
}

/** Gives a formula the connection state of an input. */
function follow(slot: Slot, input: Slot): void {
  const { columns, core } = slot.wasm;
  if (columns.state[input.index] !== REFUSED) {
    core.follow(slot.index, input.index);
    return;
  }
  const reason = `${input.name}: ${core.reason(input.index)}`;
  if (core.reason(slot.index) !== reason) core.refuse(slot.index, reason);
}
