/** Whether a saved value and another one are the same, within a tolerance. */

import { t } from "pvwire";

import { isUnique, labelOf, type SavedPv, type SavedValue, type Scalar } from "./snapshot";

export interface Comparison {
  readonly kind: "same" | "differs" | "unknown";
  /** The difference, or why it is not known. */
  readonly text: string;
}

/** A saved PV, and what it is compared with. */
export interface Line {
  readonly pv: SavedPv;
  readonly other: SavedPv;
  readonly comparison: Comparison;
}

export interface Tolerance {
  readonly absolute: number;
  /** A part of the saved value. */
  readonly relative: number;
}

export const EXACT: Tolerance = { absolute: 0, relative: 0 };

/** `0.1`, `2 %`, or nothing for exactly; `undefined` for any other text. */
export function toleranceOf(text: string): Tolerance | undefined {
  const trimmed = text.trim().replace(",", ".");
  if (trimmed === "") return EXACT;
  const [, digits = "", percent] = /^([^%]*?)\s*(%?)$/.exec(trimmed) ?? [];
  const size = digits === "" ? NaN : Number(digits);
  if (!(size >= 0 && size < Infinity)) return undefined;
  return percent === "%" ? { absolute: 0, relative: size / 100 } : { absolute: size, relative: 0 };
}

const isText = (scalar: Scalar): scalar is string => typeof scalar === "string";

function isNear(saved: Scalar, other: Scalar, { absolute, relative }: Tolerance): boolean {
  if (isText(saved) || isText(other)) return saved === other;
  if (Object.is(Number(saved), NaN) || Object.is(Number(other), NaN))
    return Object.is(saved, other);
  // `==`, because 1 and 1n are the same number.
  if (saved == other) return true;
  if (!Number.isFinite(Number(saved)) || !Number.isFinite(Number(other))) return false;
  const limit = Math.max(absolute, relative * Math.abs(Number(saved)));
  if (limit === 0) return false;
  const distance =
    typeof saved === "bigint" && typeof other === "bigint"
      ? Math.abs(Number(saved - other))
      : Math.abs(Number(saved) - Number(other));
  // A difference of decimal fractions has an error of the last bits: 0.3 - 0.1 isn't within 0.2.
  return distance <= limit * (1 + 8 * Number.EPSILON) + Math.abs(Number(saved)) * Number.EPSILON;
}

const elementsOf = (value: SavedValue): readonly Scalar[] =>
  typeof value === "object" ? value : [value];

const digitsOf = (number: number): string => String(Number(number.toPrecision(6)));

function numberText(saved: number, other: number): string {
  const change = other - saved;
  const sign = change > 0 ? "+" : "";
  if (!Number.isFinite(change)) return t`differs`;
  const percent = Number(((100 * change) / Math.abs(saved)).toPrecision(3));
  const part = saved === 0 ? "" : ` (${sign}${String(percent)} %)`;
  return `${sign}${digitsOf(change)}${part}`;
}

/** Compares what was saved with another value of the PV, now or in another snapshot. */
export function compare(saved: SavedPv, other: SavedPv, otherwise: Tolerance): Comparison {
  if (saved.value === undefined) return { kind: "unknown", text: t`not saved: ${saved.missing}` };
  if (other.value === undefined) return { kind: "unknown", text: other.missing };
  const tolerance = saved.tolerance === "" ? otherwise : (toleranceOf(saved.tolerance) ?? EXACT);
  const [savedLabel, otherLabel] = [labelOf(saved), labelOf(other)];
  if (savedLabel !== undefined && otherLabel !== undefined) {
    const isOne = saved.value === other.value || isUnique(savedLabel, other.choices ?? []);
    const isSame = savedLabel === otherLabel && isOne;
    return { kind: isSame ? "same" : "differs", text: isSame ? "" : t`another choice` };
  }
  const [ours, theirs] = [elementsOf(saved.value), elementsOf(other.value)];
  if (ours.length !== theirs.length) {
    const lengths = t`${String(ours.length)} elements saved, ${String(theirs.length)} now`;
    return { kind: "differs", text: lengths };
  }
  const different = ours.filter((each, at) => !isNear(each, theirs[at] ?? NaN, tolerance)).length;
  if (different === 0) return { kind: "same", text: "" };
  const [one, two] = [saved.value, other.value];
  if (typeof one === "object") {
    return { kind: "differs", text: t`${String(different)} of ${String(ours.length)} elements` };
  }
  if (typeof one === "number" && typeof two === "number") {
    return { kind: "differs", text: numberText(one, two) };
  }
  const text = typeof one === "bigint" && typeof two === "bigint" ? String(two - one) : t`differs`;
  return { kind: "differs", text };
}
