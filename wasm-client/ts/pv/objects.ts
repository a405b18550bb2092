/** Makes the objects of selections, and keeps those in which nothing changed. */

import type { Columns } from "../store/core.js";
import type { Slot } from "../store/slot.js";

/** Reads a field. */
export type Reader = (slot: Slot, columns: Columns) => unknown;

type Values = Readonly<Record<string, unknown>>;

/**
 * Reads an object again: the fields that `parts` affect, or all if there is no `last` object. The
 * result is `last` if nothing in it changed, and `null` if there is no such object now. `made` is
 * the result so far of an object that is read in several pieces.
 */
export type Show = (
  slot: Slot,
  columns: Columns,
  parts: number,
  last: Values | null | undefined,
  made?: Record<string, unknown>,
) => Values | null;

/** A field: its key, the parts that it reads, and what reads it. */
type Field = readonly [
  key: string,
  mask: number,
  read: (slot: Slot, columns: Columns, parts: number, last: never) => unknown,
];

type Make = (
  a: Field,
  b: Field,
  c: Field,
  d: Field,
  /** An object with the same keys and no values. */
  none: Values,
  /** The object has no other fields. */
  isWhole: boolean,
  /** Tells whether the object exists. */
  present: Reader | undefined,
  /** Reads the object's other fields. */
  rest: Show | undefined,
) => Show;

/** Every part, including those that no field reads. */
export const ALL_PARTS = -1;

/** In every mask, so that `ALL_PARTS` affects fields that read no part. */
const ANY = 1 << 31;

const NO_FIELD: Field = ["", 0, () => undefined];

/**
 * Equal functions, which the objects of a page share. JavaScript engines keep what they learn about
 * a call or a property with its place in the source: one function that reads many kinds of objects
 * takes up to twice as long. They copy an object without values in a few instructions, any other
 * object much slower.
 */
const MAKES: readonly Make[] = [
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
  ([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isWhole, present, rest) =>
    (slot, columns, given, last, made) => {
      if (present !== undefined && present(slot, columns) === false) return null;
      const was = last ?? none;
      const parts = was === none ? ALL_PARTS : given;
      const a = (am & parts) === 0 ? was[ak] : ar(slot, columns, parts, was[ak] as never);
      const b = (bm & parts) === 0 ? was[bk] : br(slot, columns, parts, was[bk] as never);
      const c = (cm & parts) === 0 ? was[ck] : cr(slot, columns, parts, was[ck] as never);
      const d = (dm & parts) === 0 ? was[dk] : dr(slot, columns, parts, was[dk] as never);
      let now = made;
      if (!(
        Object.is(a, was[ak]) &&
        Object.is(b, was[bk]) &&
        Object.is(c, was[ck]) &&
        Object.is(d, was[dk])
      )) {
        now ??= isWhole ? { ...none } : { ...was };
        now[ak] = a;
        if (bm !== 0) now[bk] = b;
        if (cm !== 0) now[ck] = c;
        if (dm !== 0) now[dk] = d;
      }
      return rest === undefined ? (now ?? was) : rest(slot, columns, parts, was, now);
    },
];

let made = 0;

/** Makes what reads the object with these fields. Without `present` it always exists. */
export function objectOf(fields: readonly Field[], present: Reader | undefined): Show {
  // Defined, because assigning to the key `__proto__` would set the prototype.
  const none = Object.fromEntries(fields.map(([key]) => [key, undefined]));
  return pieceOf(
    fields.map(([key, mask, read]) => [key, mask | ANY, read]),
    none,
    fields.length <= 4,
    present,
  );
}

/** Reads four fields, and then the others. */
function pieceOf(
  [a = NO_FIELD, b = NO_FIELD, c = NO_FIELD, d = NO_FIELD, ...others]: readonly Field[],
  none: Values,
  isWhole: boolean,
  present?: Reader,
): Show {
  const make = MAKES[made % MAKES.length] as Make;
  made += 1;
  const rest = others.length === 0 ? undefined : pieceOf(others, none, false);
  return make(a, b, c, d, none, isWhole, present, rest);
}
