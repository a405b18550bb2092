/** Makes the objects of selections, and keeps those in which nothing changed. */

import type { Results } from "../store/results.js";
import type { Slot } from "../store/slot.js";

/** Makes a field from the next cell; `last` is its last value. */
export type Reader = (slot: Slot, results: Results, parts?: number, last?: unknown) => unknown;

type Values = Readonly<Record<string, unknown>>;

/** The result for a selection or one of its objects; nothing before the first. */
export type Shown = Values | null | undefined;

/**
 * Makes an object from the next cells, which are those of the fields that `parts` affect, or of all
 * if there is no `last` object or the object can be missing. The result is `last` if nothing in it
 * changed, and `null` if there is no such object now. `made` is the result so far of an object that
 * is made in several pieces.
 */
export type Show = (
  slot: Slot,
  results: Results,
  parts: number,
  last: Shown,
  made?: Record<string, unknown>,
) => Values | null;

/** A field: its key, the parts that it reads, and what makes it. */
export type Field = readonly [
  key: string,
  mask: number,
  read: (slot: Slot, results: Results, parts: number, last: never) => unknown,
];

type Made = Record<string, unknown>;

/** Makes an object from the values of its fields. */
type MakeObject = new (...values: [a: unknown, b: unknown, c: unknown, d: unknown]) => Made;

/** What makes an object. */
export interface Maker {
  /** Makes it from the values of up to four fields, of which none is `__proto__`. */
  readonly make: MakeObject;
  readonly show: Show;
}

type Make = (
  a: Field,
  b: Field,
  c: Field,
  d: Field,
  /** An object with the same keys and no values. */
  none: Values,
  /** How many fields the object has; 0 if it can't be made at once. */
  count: number,
  /** Whether the object can be missing; all of it is read then. */
  isOptional: boolean,
  /** Makes the object's other fields. */
  rest: Show | undefined,
) => Maker;

/** Every part, including those that no field reads. */
export const ALL_PARTS = -1;

/** In every field's mask, so that `ALL_PARTS` affects fields that read no part. */
export const ANY = 1 << 28;

export const NO_FIELD: Field = ["", 0, (): undefined => undefined];

/** `Object.is`, which engines don't inline for numbers. */
const isSame = (a: unknown, was: unknown): boolean =>
  a === was ? a !== 0 || Object.is(a, was) : a !== a && was !== was;

/**
 * Whether the four values are as before. Strings are compared only if nothing else differs: engines
 * copy a concatenated string before they compare it, which takes longer than to make it.
 */
function areSame(
  a: unknown,
  aWas: unknown,
  b: unknown,
  bWas: unknown,
  c: unknown,
  cWas: unknown,
  d: unknown,
  dWas: unknown,
): boolean {
  return (
    (typeof a === "string" || isSame(a, aWas)) &&
    (typeof b === "string" || isSame(b, bWas)) &&
    (typeof c === "string" || isSame(c, cWas)) &&
    (typeof d === "string" || isSame(d, dWas)) &&
    isSame(a, aWas) &&
    isSame(b, bWas) &&
    isSame(c, cWas) &&
    isSame(d, dWas)
  );
}

/**
 * Equal functions, which the objects of a page share. JavaScript engines keep what they learn about
 * a call or a property with its place in the source: one function that reads many kinds of objects
 * takes up to twice as long. They inline a constructor, but not the copying of an object.
 */
const MAKES: readonly Make[] = [
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, count, isOptional, rest) => {
    // Named as what it makes: objects without a class.
    const { Object: Made }: { Object: MakeObject } = {
      Object: function (this: Made, a: unknown, b: unknown, c: unknown, d: unknown) {
        this[ak] = a;
        if (count > 1) this[bk] = b;
        if (count > 2) this[ck] = c;
        if (count > 3) this[dk] = d;
      } as unknown as MakeObject,
    };
    Made.prototype = Object.prototype;
    const nothing = count === 0 ? none : new Made(undefined, undefined, undefined, undefined);
    const show: Show = (slot, results, given, last, made) => {
      if (isOptional && results.isMissing()) return null;
      const was = last ?? nothing;
      const parts = isOptional || was === nothing ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, results, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, results, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, results, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, results, parts, was[dk] as never);
      let now = made;
      if (!areSame(a, was[ak], b, was[bk], c, was[ck], d, was[dk])) {
        if (count > 0) return new Made(a, b, c, d);
        now ??= { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, results, parts, was, now);
    };
    return { make: Made, show };
  },
];

let made = 0;

/** Whether an object with these fields can be made at once. */
export const isSimple = (fields: readonly Field[]): boolean =>
  // Assigning to this key would set the prototype.
  fields.length <= 4 && !fields.some(([key]) => key === "__proto__");

const NOTHING: Values = {};

/** Makes what makes the object with these fields. */
export function objectOf(fields: readonly Field[], isOptional: boolean): Maker {
  if (isSimple(fields)) return pieceOf(fields, 0, NOTHING, fields.length, isOptional);
  const none = Object.fromEntries(fields.map(([key]) => [key, undefined]));
  return pieceOf(fields, 0, none, 0, isOptional);
}

/** Makes four fields from this one on, and then the others. */
function pieceOf(
  fields: readonly Field[],
  from: number,
  none: Values,
  count: number,
  isOptional: boolean,
): Maker {
  const make = MAKES[made % MAKES.length] as Make;
  made += 1;
  const rest =
    fields.length <= from + 4 ? undefined : pieceOf(fields, from + 4, none, 0, false).show;
  const field = (at: number): Field => fields[from + at] ?? NO_FIELD;
  return make(field(0), field(1), field(2), field(3), none, count, isOptional, rest);
}
