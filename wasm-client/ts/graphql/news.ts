/**
 * Makes the results of subscriptions, in which objects that haven't changed are null. An object that the PV has
 * no longer is sent once with null fields, so that an application that merges results forgets it.
 */

import { ALL_PARTS, type ObjectPlan } from "../pv/plan.js";
import { isSimple, NO_FIELD } from "../pv/objects.js";
import type { Results } from "../store/results.js";
import type { Slot } from "../store/slot.js";

/**
 * Makes the fields that `parts` affect from the next cells; the result is `undefined` if nothing
 * changed. `last` has the values of the last result and is brought up to date; it is empty before the
 * first.
 */
export type News = (
  slot: Slot,
  results: Results,
  parts: number,
  last: unknown[],
) => object | undefined;

const known = new WeakMap<ObjectPlan, News>();

export function newsOf(plan: ObjectPlan): News {
  let news = known.get(plan);
  if (news === undefined) {
    news = isSimple(plan.fields) ? newsOfFew(plan) : newsOfMany(plan);
    known.set(plan, news);
  }
  return news;
}

/** The news of one object, which was `was`. */
const newsOfObject = (now: unknown, was: unknown, gone: object): unknown => {
  if (now === was) return null;
  return now === null && was !== undefined ? gone : now;
};

/** Without loop and copy, which take longer than the rest. */
function newsOfFew({ fields, gone, make }: ObjectPlan): News {
  const [a = NO_FIELD, b = NO_FIELD, c = NO_FIELD, d = NO_FIELD] = fields;
  const [[, am, ar], [, bm, br], [, cm, cr], [, dm, dr]] = [a, b, c, d];
  const [aGone, bGone, cGone, dGone] = gone;
  return (slot, results, given, last) => {
    const parts = last.length === 0 ? ALL_PARTS : given;
    const [aWas, bWas, cWas, dWas] = last;
    const a = (am & parts) === 0 ? aWas : ar(slot, results, parts, aWas as never);
    const b = (bm & parts) === 0 ? bWas : br(slot, results, parts, bWas as never);
    const c = (cm & parts) === 0 ? cWas : cr(slot, results, parts, cWas as never);
    const d = (dm & parts) === 0 ? dWas : dr(slot, results, parts, dWas as never);
    if (a === aWas && b === bWas && c === cWas && d === dWas) return undefined;
    last[0] = a;
    last[1] = b;
    last[2] = c;
    last[3] = d;
    return new make(
      aGone === undefined ? a : newsOfObject(a, aWas, aGone),
      bGone === undefined ? b : newsOfObject(b, bWas, bGone),
      cGone === undefined ? c : newsOfObject(c, cWas, cGone),
      dGone === undefined ? d : newsOfObject(d, dWas, dGone),
    );
  };
}

function newsOfMany({ fields, gone, show }: ObjectPlan): News {
  return (slot, results, parts, last) => {
    const before = last[0] as Record<string, unknown> | undefined;
    const now = show(slot, results, parts, before);
    last[0] = now;
    if (before === undefined || now === null) return now ?? undefined;
    if (now === before) return undefined;
    const news = { ...now };
    fields.forEach(([key], at) => {
      const object = gone[at];
      if (object !== undefined) news[key] = newsOfObject(now[key], before[key], object);
    });
    return news;
  };
}
