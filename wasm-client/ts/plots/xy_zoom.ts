/** What part of a plot against a PV is shown, and which of its points is nearest to a place in the picture. */

import { givenRange, positionIn, type Range } from "../widgets/scale.js";
import type { Room } from "./draw.js";
import type { XyCurve } from "./xy.js";

/**
 * The low and the high end of the horizontal axis, then those of each vertical axis: of an axis for all PVs with the
 * same units, in the order of the PVs. An axis whose ends aren't numbers shows all of its curves.
 */
export type XyZoom = readonly number[];

interface PlacedAxis {
  readonly range: Range;
  readonly isLog: boolean;
}

interface PlacedScale extends PlacedAxis {
  readonly scale: string;
  /** Among the axes of all PVs. */
  readonly index: number;
}

/** The axes as they were drawn. */
export interface XyPlaced {
  readonly room: Room;
  readonly x: PlacedAxis;
  readonly y: readonly PlacedScale[];
}

/** A place in the picture, in pixels. */
export interface Place {
  readonly x: number;
  readonly y: number;
}

/** A point of a curve. */
export interface Near {
  readonly curve: number;
  readonly row: number;
}

/** The range of an axis: 0 is the horizontal one. `undefined` without a zoom. */
export function rangeIn(zoom: XyZoom | undefined, axis: number): Range | undefined {
  const [low = NaN, high = NaN] = zoom?.slice(2 * axis, 2 * axis + 2) ?? [];
  return low < high ? givenRange([low, high]) : undefined;
}

/** A logarithmic axis that can have no logarithms is drawn as a plain one. */
const isByPowers = ({ isLog, range }: PlacedAxis): boolean => isLog && range[0] > 0;

/** Where a number is on an axis: 0 at its low end, 1 at its high end. */
function partOf(axis: PlacedAxis, number: number): number {
  if (!isByPowers(axis)) return positionIn(axis.range, number);
  const [low, high] = axis.range;
  return positionIn([Math.log10(low), Math.log10(high)], Math.log10(number));
}

/** The numbers at both ends of a part of an axis. */
function numbersOf(axis: PlacedAxis, [from, to]: Range): Range {
  const powers = isByPowers(axis);
  const [low, high] = powers ? axis.range.map(Math.log10) : axis.range;
  const at = (part: number): number => {
    const number = low * (1 - part) + high * part;
    return powers ? 10 ** number : number;
  };
  // Not so small that two ticks would have the same number.
  return givenRange([at(from), at(to)]) ?? axis.range;
}

/** Shows a part of the picture; parts are counted from the left and from the bottom. */
export function zoomedTo(placed: XyPlaced, x: Range, y: Range, before: XyZoom | undefined): XyZoom {
  const zoom = [...(before ?? [])];
  const set = (axis: number, range: Range): void => {
    // An axis without a curve has no range yet.
    while (zoom.length < 2 * axis + 2) zoom.push(NaN);
    zoom.splice(2 * axis, 2, ...range);
  };
  set(0, numbersOf(placed.x, x));
  for (const axis of placed.y) set(1 + axis.index, numbersOf(axis, y));
  return zoom;
}

/** The part of the picture between two places. A side that was hardly moved stays as it is. */
export function partsBetween(
  { room }: XyPlaced,
  one: Place,
  other: Place,
): { readonly x: Range; readonly y: Range } | undefined {
  const [isWide, isHigh] = [
    Math.abs(one.x - other.x) >= LEAST_DRAG,
    Math.abs(one.y - other.y) >= LEAST_DRAG,
  ];
  if (!isWide && !isHigh) return undefined;
  const within = (part: number): number => Math.min(1, Math.max(0, part));
  const across = ({ x }: Place): number => within((x - room.left) / (room.right - room.left));
  const up = ({ y }: Place): number => within((room.bottom - y) / (room.bottom - room.top));
  const ends = (of: (place: Place) => number): Range => [
    Math.min(of(one), of(other)),
    Math.max(of(one), of(other)),
  ];
  return { x: isWide ? ends(across) : [0, 1], y: isHigh ? ends(up) : [0, 1] };
}

/** In pixels: a click moves a little, too. */
const LEAST_DRAG = 6;

/** Finds the place of each point of a curve; NaN outside of the picture. */
interface Placer {
  readonly count: number;
  readonly x: (row: number) => number;
  readonly y: (row: number) => number;
}

function placerOf(placed: XyPlaced, { points, trace }: XyCurve): Placer | undefined {
  const axis = placed.y.find(({ scale }) => scale === trace.scale);
  if (axis === undefined) return undefined;
  const { bottom, left, right, top } = placed.room;
  // NaN isn't within either.
  const inside = (part: number): number => (part >= 0 && part <= 1 ? part : NaN);
  return {
    count: Math.min(points.x.length, points.y.length),
    x: (row) => left + inside(partOf(placed.x, Number(points.x[row]))) * (right - left),
    y: (row) => bottom - inside(partOf(axis, Number(points.y[row]))) * (bottom - top),
  };
}

/** The point that is nearest to a place. */
export function nearestTo(
  placed: XyPlaced | undefined,
  curves: readonly XyCurve[],
  place: Place | undefined,
): Near | undefined {
  let near: Near | undefined;
  if (placed === undefined || place === undefined) return near;
  let least = Infinity;
  curves.forEach((curve, at) => {
    const placer = placerOf(placed, curve);
    if (placer === undefined) return;
    for (let row = 0; row < placer.count; row += 1) {
      const distance = (placer.x(row) - place.x) ** 2 + (placer.y(row) - place.y) ** 2;
      if (distance < least) [least, near] = [distance, { curve: at, row }];
    }
  });
  return near;
}

/** Where the next point of a curve is that is in the picture, before or after another one. */
export function placeBeside(
  placed: XyPlaced,
  curves: readonly XyCurve[],
  near: Near | undefined,
  by: 1 | -1,
): Place | undefined {
  const curve = curves[near?.curve ?? 0];
  const placer = curve && placerOf(placed, curve);
  if (placer === undefined) return undefined;
  for (
    let row = near === undefined ? 0 : near.row + by;
    row >= 0 && row < placer.count;
    row += by
  ) {
    const [x, y] = [placer.x(row), placer.y(row)];
    if (!Number.isNaN(x + y)) return { x, y };
  }
  return undefined;
}
