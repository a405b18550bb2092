/** Values of PVs against those of another one: arrays element by element, numbers as they were at the same time. */

import { t } from "../texts.js";

import { csvText } from "./export.js";
import { numberText } from "./numbers.js";
import { stepAt, type Span, type Steps } from "./steps.js";
import { timeText } from "./times.js";
import type { Trace } from "./traces.js";

/** Stands for the index of an array's element, in place of the name of a PV. */
export const ELEMENT_INDEX = "#";

/** Points of a curve in their order; NaN is a gap. */
export interface Points {
  readonly x: ArrayLike<number | bigint>;
  readonly y: ArrayLike<number | bigint>;
  /** When each began, in seconds past 1970; `undefined` for elements of arrays. */
  readonly at: readonly number[] | undefined;
}

/** Records that one scan processes have time stamps that differ by less: their updates are one point. */
const SAME_SECONDS = 0.01;

/** Both values at each moment of a span when one of them changed, those at its begin first. */
export function pairsOf(x: Steps, y: Steps, { from, to }: Span): Points {
  const [xs, ys, at]: [number[], number[], number[]] = [[], [], []];
  let [atX, atY] = [stepAt(x, from), stepAt(y, from)];
  const add = (time: number): void => {
    const [newX, newY] = [x.value[atX] ?? NaN, y.value[atY] ?? NaN];
    const isGap = Number.isNaN(newX) || Number.isNaN(newY);
    // One gap is as wide as several.
    if (isGap && Number.isNaN(xs.at(-1) ?? NaN)) return;
    xs.push(isGap ? NaN : newX);
    ys.push(isGap ? NaN : newY);
    at.push(time);
  };
  add(from);
  for (;;) {
    const [nextX, nextY] = [x.at[atX + 1] ?? Infinity, y.at[atY + 1] ?? Infinity];
    const next = Math.min(nextX, nextY);
    if (!(next <= to)) return { x: xs, y: ys, at };
    const isSame = Math.abs(nextX - nextY) < SAME_SECONDS;
    if (isSame || nextX < nextY) atX += 1;
    if (isSame || nextX >= nextY) atY += 1;
    add(isSame ? Math.max(nextX, nextY) : next);
  }
}

/** The ends of an array; `undefined` if it has no number. */
export function endsOf(array: ArrayLike<number | bigint>): readonly [number, number] | undefined {
  let [low, high] = [Infinity, -Infinity];
  const { length } = array;
  for (let at = 0; at < length; at += 1) {
    const number = Number(array[at]);
    if (!Number.isFinite(number)) continue;
    if (number < low) low = number;
    if (number > high) high = number;
  }
  return low <= high ? [low, high] : undefined;
}

export interface XyCurve {
  readonly trace: Trace;
  readonly points: Points;
  /** The last pair is the present one. */
  readonly isNow: boolean;
}

/** The present pair of two numbers. */
export function presentOf({ isNow, points }: XyCurve): readonly [x: number, y: number] | undefined {
  const last = points.x.length - 1;
  if (!isNow || points.at === undefined || last < 0) return undefined;
  const [x, y] = [Number(points.x[last]), Number(points.y[last])];
  return Number.isNaN(x + y) ? undefined : [x, y];
}

const valueText = ({ choices }: Pick<Trace, "choices">, number: number | bigint): string =>
  choices?.[Number(number)] ?? String(number);

/** A point in words: both values, and when they were or which element it is. */
export function pointText(
  x: Trace | undefined,
  { points, trace }: XyCurve,
  row: number,
  isUtc: boolean,
): string {
  const textOf = (of: Trace, number: number | bigint): string => {
    const plain = of.choices?.[Number(number)] ?? numberText(Number(number));
    return of.units === "" ? plain : `${plain} ${of.units}`;
  };
  const value = `${trace.name} ${textOf(trace, points.y[row] ?? NaN)}`;
  const at = points.at?.[row];
  const element = t`element ${String(row)}`;
  if (x === undefined) return `${value} · ${element}`;
  const when = at === undefined ? element : timeText(at, isUtc);
  return `${value} · ${x.name} ${textOf(x, points.x[row] ?? NaN)} · ${when}`;
}

/** ISO 8601 in UTC; steps have microseconds. */
function isoOf(seconds: number): string {
  const micros = Math.round(1e6 * seconds);
  const whole = new Date(1000 * Math.floor(micros / 1e6)).toISOString().slice(0, 19);
  return `${whole}.${String(micros % 1e6).padStart(6, "0")}Z`;
}

/** One line for each point that is drawn. */
export function csvOfCurves(x: Trace | undefined, curves: readonly XyCurve[]): string {
  const head = ["horizontal", "vertical", "element", "time (UTC)", "x", "x units", "y", "y units"];
  const lines = [head];
  for (const { points, trace } of curves) {
    const count = Math.min(points.x.length, points.y.length);
    for (let row = 0; row < count; row += 1) {
      const [numberX, numberY] = [points.x[row] ?? NaN, points.y[row] ?? NaN];
      if (Number.isNaN(numberX) || Number.isNaN(numberY)) continue;
      const time = points.at?.[row];
      lines.push([
        x?.name ?? "index",
        trace.name,
        points.at === undefined ? String(row) : "",
        time === undefined ? "" : isoOf(time),
        x === undefined ? String(numberX) : valueText(x, numberX),
        x?.units ?? "",
        valueText(trace, numberY),
        trace.units,
      ]);
    }
  }
  return csvText(lines);
}

/** What a screen reader says of the picture. */
export function textOfCurves(x: Trace | undefined, curves: readonly XyCurve[]): string {
  const horizontal = x?.name ?? t`the index of the element`;
  if (curves.length === 0) return t`Nothing to draw against ${horizontal}`;
  const withUnits = (text: string, units: string): string =>
    units === "" ? text : `${text} ${units}`;
  const rangeText = (ends: readonly [number, number] | undefined, units: string): string => {
    if (ends === undefined) return t`no number`;
    const [low, high] = ends.map((end) => numberText(end, ends[1] - ends[0]));
    return withUnits(low === high ? (low ?? "") : t`${low ?? ""} to ${high ?? ""}`, units);
  };
  const texts = curves.map((curve) => {
    const { points, trace } = curve;
    const { length } = points.x;
    let count = 0;
    for (let at = 0; at < length; at += 1) {
      if (!Number.isNaN(Number(points.x[at]) + Number(points.y[at] ?? NaN))) count += 1;
    }
    const many = count === 1 ? t`1 point` : t`${count} points`;
    const across = rangeText(endsOf(points.x), x?.units ?? "");
    const ranges = t`horizontally ${across}, vertically ${rangeText(endsOf(points.y), trace.units)}`;
    const [nowX, nowY] = presentOf(curve) ?? [];
    const now =
      nowX === undefined || nowY === undefined
        ? ""
        : t`; now ${withUnits(numberText(nowX), x?.units ?? "")} and ${withUnits(numberText(nowY), trace.units)}`;
    return t`${trace.name} against ${horizontal}: ${many}, ${ranges}${now}`;
  });
  return texts.join(". ");
}
