/** Compiles selections: the module's program for each, and what makes objects from its results. */

import { SelectionError } from "../errors.js";
import { compileSelection, releaseProgram, type Wasm } from "../store/core.js";
import type { Program, Results } from "../store/results.js";
import type { Slot } from "../store/slot.js";
import {
  ALL_PARTS,
  ANY,
  objectOf,
  type Field,
  type Maker,
  type Reader,
  type Shown,
} from "./objects.js";

export { ALL_PARTS, type Reader } from "./objects.js";

export const ALARM = 1 << 2;

/** The part that contains whether a PV is connected and its server answers. */
export const CONNECTION = 1 << 4;

/**
 * Not a part: a plan with this bit reads the description, which some sources send only on request.
 */
export const DESCRIBES = 1 << 29;

/** One object of a selection. */
export interface ObjectPlan extends Maker {
  readonly fields: readonly Field[];
  /** Whether the field at this index is an object. */
  readonly isObject: readonly boolean[];
  /** Parts that the whole object reads. */
  readonly mask: number;
}

/** A compiled selection. */
export interface Plan extends ObjectPlan, Program {}

/** Text as an application writes it, or compiled; everything if omitted. */
export type Selection = string | Plan | undefined;

/** Sign, key, name and mask of a field, and its arguments if it takes any. */
export type Words = [string, string, string, string, ...string[]];

/** Objects that the module makes from an array or a structure. */
const WHOLE = /^value\.(?:base64Array|table|ndArray)$/;

/** Objects that can be missing. */
const OPTIONAL = /^(?:value|time|display(?:\.\w+Range)?)$/;

const next: Reader = (slot: Slot, results: Results, _parts?: number, last?: unknown) =>
  results.next(slot, last);

/**
 * Turns the module's plan, from the next line to the end of its object, into functions, and removes
 * these lines.
 */
export function planObject(lines: string[], path = ""): ObjectPlan {
  const fields: Field[] = [];
  const isObject: boolean[] = [];
  let mask = 0;
  let line: string | undefined;
  // The last line of the plan is empty.
  while ((line = lines.shift()) && line !== "}") {
    const words = line.split(" ") as Words;
    const [sign, key, name, own] = words;
    const inner = path ? `${path}.${name}` : name;
    const isWhole = WHOLE.test(inner);
    const contents = sign === "{" ? planObject(lines, inner) : undefined;
    const field = contents === undefined || isWhole ? leaf(name) : contents;
    // A function itself reads no parts.
    const described = inner.endsWith("display.description") ? DESCRIBES : 0;
    const parts = Number(own) | (field as ObjectPlan).mask | described;
    const isReader = typeof field === "function";
    fields.push([key, parts | ANY, isReader ? field : field.show]);
    isObject.push(!isReader);
    mask |= parts;
  }
  return { fields, isObject, mask, ...objectOf(fields, OPTIONAL.test(path)) };
}

/** The name of an object's type has no cell. */
function leaf(name: string): Reader {
  const [, type] = name.split(":");
  return type === undefined ? next : () => type;
}

const programs = new FinalizationRegistry(releaseProgram);

/** A plan with its program: 16 times its number, plus what it needs. */
export function programmed(plan: ObjectPlan, program: number): Plan {
  const number = program >>> 4;
  const programmed = { ...plan, number, needs: program & 15 };
  programs.register(programmed, number);
  return programmed;
}

const plans = new Map<string | undefined, Plan>();

/** Maximum number of compiled selections that are kept; an application has few. */
const MAX_PLANS = 1000;

/** A selection's functions, compiled once. Only when the module is loaded. */
export function planSelection(selection: Selection): Plan {
  if (typeof selection === "object") return selection;
  let plan = plans.get(selection);
  if (plan === undefined) {
    const text = compileSelection(selection ?? "*");
    if (text.startsWith("[")) throw new SelectionError(text);
    const [program, ...lines] = text.split("\n");
    plan = programmed(planObject(lines), Number(program));
    if (plans.size >= MAX_PLANS) plans.clear();
    plans.set(selection, plan);
  }
  return plan;
}

/** What a selection shows of a slot: `last` if nothing that `parts` affect changed. */
export function show(plan: Plan, slot: Slot, parts: number, last: Shown): Shown {
  const results = slot.wasm.begin();
  results.add(plan, slot, slot.index, parts);
  results.run(slot.answer);
  return plan.show(slot, results, parts, last);
}

/** What a selection shows of each slot: of live PVs, or of those of the last answered Get. */
export function showAll(
  wasm: Wasm,
  plan: Plan,
  slots: readonly Slot[],
  kinds?: Uint8Array,
): object[] {
  const results = wasm.begin(kinds);
  for (const slot of slots) results.add(plan, slot, slot.index, ALL_PARTS);
  results.run(kinds !== undefined);
  return slots.map((slot) => plan.show(slot, results, ALL_PARTS, null) as object);
}
