/** Compiles selections: the module's program for each, and what makes objects from its results. */

import { SelectionError } from "../errors.js";
import { compileSelection, releaseProgram, type Wasm } from "../store/core.js";
import { writable } from "../store/json.js";
import type { Program, Results } from "../store/results.js";
import type { Slot } from "../store/slot.js";
import {
  ALL_PARTS,
  ANY,
  objectOf,
  type Field,
  type Maker,
  type Reader,
  type Show,
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
  /** For the field at this index, if it is an object: an object whose fields are null. */
  readonly gone: readonly (object | undefined)[];
  /** The object with null in its fields, except the names of types. */
  readonly nothing: object;
  /** Parts that the whole object reads. */
  readonly mask: number;
}

/** A compiled selection. */
export interface Plan extends ObjectPlan, Program {}

/** Text as an application writes it, or compiled; everything if omitted. */
export type Selection = string | Plan | undefined;

/** Objects that the module makes from an array or a structure. */
const WHOLE = /^(?:base64Array|table|ndArray)$/;

/** Fields in which there may be 64-bit integers. */
const INTEGERS = /^(?:bigint|array|structures?)$/;

/** Objects that can be missing. */
const OPTIONAL = /^(?:value|time|display|\w+Range)$/;

const next: Reader = (slot: Slot, results: Results, _parts?: number, last?: unknown) =>
  results.next(slot, last);

const OPENS = "{".charCodeAt(0);
const IS = "=".charCodeAt(0);
const CLOSES = "}".charCodeAt(0);

/** Where the object ends whose first line starts here. */
function endOf(text: string, start: number): number {
  let depth = 0;
  let at = start;
  do {
    const sign = text.charCodeAt(at);
    if (sign === OPENS) depth += 1;
    else if (sign === CLOSES) depth -= 1;
    at = text.indexOf("\n", at) + 1;
  } while (depth > 0);
  return at;
}

const inners = new Map<string, ObjectPlan>();

/**
 * The plan of an object inside a PV, of its lines without the first sign and key. Objects with equal
 * lines have the same functions: the selections of an application have many of them in common.
 */
function planInner(lines: string, name: string): ObjectPlan {
  let plan = inners.get(lines);
  if (plan === undefined) {
    plan = planObject(lines, lines.indexOf("\n") + 1, name);
    if (inners.size >= MAX_PLANS) inners.clear();
    inners.set(lines, plan);
  }
  return plan;
}

/** Turns the module's plan of an object, of which the first field's line starts here, into functions. */
export function planObject(text: string, start = 0, of = ""): ObjectPlan {
  const fields: Field[] = [];
  const gone: (object | undefined)[] = [];
  const nothing: Record<string, unknown> = {};
  let mask = 0;
  let hasIntegers = false;
  let at = start;
  let sign: number;
  // Sign, key, name and mask of a field, and its arguments if it takes any.
  while ((sign = text.charCodeAt(at)) === OPENS || sign === IS) {
    const keyEnd = text.indexOf(" ", at + 2);
    const nameEnd = text.indexOf(" ", keyEnd + 1);
    const name = text.slice(keyEnd + 1, nameEnd);
    let parts = parseInt(text.slice(nameEnd, nameEnd + 4), 10);
    let read: Field[2] | undefined;
    let inner: ObjectPlan | undefined;
    let end: number;
    if (sign === OPENS) {
      end = endOf(text, at);
      if (!WHOLE.test(name)) {
        inner = planInner(text.slice(keyEnd + 1, end), name);
        parts |= inner.mask;
        read = inner.show;
      }
    } else {
      end = text.indexOf("\n", nameEnd) + 1;
      // A function itself reads no parts.
      if (name === "description" && of === "display") parts |= DESCRIBES;
    }
    hasIntegers ||= INTEGERS.test(name);
    gone.push(inner?.nothing);
    nothing[text.slice(at + 2, keyEnd)] = typeOf(name) ?? null;
    fields.push([text.slice(at + 2, keyEnd), parts | ANY, read ?? leaf(name)]);
    mask |= parts;
    at = end;
  }
  const { make, show } = objectOf(fields, OPTIONAL.test(of));
  return { fields, gone, mask, make, nothing, show: hasIntegers ? showWritable(show) : show };
}

const showWritable =
  (show: Show): Show =>
  (slot, results, parts, last) => {
    const now = show(slot, results, parts, last);
    return now === null || now === last ? now : writable(now);
  };

/** The name of the object's type, if the field shows it. */
const typeOf = (name: string): string | undefined => name.split(":")[1];

/** The name of an object's type has no cell. */
function leaf(name: string): Reader {
  const type = typeOf(name);
  return type === undefined ? next : () => type;
}

const programs = new FinalizationRegistry(releaseProgram);

/** A plan with its program: 16 times its number, plus what it needs. */
export function programmed(
  { fields, gone, make, mask, nothing, show }: ObjectPlan,
  program: number,
): Plan {
  const number = program >>> 4;
  const programmed = { fields, gone, make, mask, nothing, show, number, needs: program & 15 };
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
    plan = programmed(planObject(text), Number(text.slice(text.lastIndexOf("\n") + 1)));
    if (plans.size >= MAX_PLANS) plans.clear();
    plans.set(selection, plan);
  }
  return plan;
}

/** What a selection shows of a slot: `last` if nothing that `parts` affect changed. */
export function show(plan: Plan, slot: Slot, parts: number, last: Shown): Shown {
  const { heardMs, results } = slot.wasm;
  results.add(plan, slot, parts);
  results.run(heardMs, slot.answer);
  return plan.show(slot, results, parts, last);
}

/** What a selection shows of each slot: of live PVs, or of those of the last answered Get. */
export function showAll(
  { heardMs, results }: Wasm,
  plan: Plan,
  slots: readonly Slot[],
  answer = false,
): object[] {
  for (const slot of slots) results.add(plan, slot, ALL_PARTS);
  results.run(heardMs, answer);
  return slots.map((slot) => plan.show(slot, results, ALL_PARTS, null) as object);
}
