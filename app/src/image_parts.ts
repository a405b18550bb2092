/** Parts of an image: an element, a row or a column, a region, and their numbers. */

import type { ComponentProps } from "react";
import type { NumericArray } from "pvwire";
import type { ImageView } from "pvwire/widgets";

export type Picture = Parameters<NonNullable<ComponentProps<typeof ImageView>["prepare"]>>[0];

/** A part of an image, in pixels. */
export interface Region {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The region within the picture; `undefined` if none of it is. */
export function within(region: Region, { height, width }: Picture): Region | undefined {
  const [x, y] = [Math.max(0, region.x), Math.max(0, region.y)];
  const right = Math.min(width, region.x + region.width);
  const bottom = Math.min(height, region.y + region.height);
  return right > x && bottom > y ? { x, y, width: right - x, height: bottom - y } : undefined;
}

/** Where a pixel's first element is, and the distance from each of its three colours to the next. */
function place({ height, order, width }: Picture, { x, y }: Point): [first: number, step: number] {
  if (order === "rgb1") return [3 * (y * width + x), 1];
  if (order === "rgb2") return [3 * y * width + x, width];
  return [y * width + x, width * height];
}

/** The elements of a pixel: one, or red, green and blue. */
export function elementsAt(picture: Picture, point: Point): (number | bigint)[] {
  const [first, step] = place(picture, point);
  const count = picture.order === "mono" ? 1 : 3;
  return Array.from({ length: count }, (_, colour) => picture.elements[first + colour * step] ?? 0);
}

/** The same of one region alone. */
export function cropped(picture: Picture, region: Region): Picture {
  const { elements, order } = picture;
  const { height, width } = region;
  const colours = order === "mono" ? 1 : 3;
  const Elements = elements.constructor as new (length: number) => NumericArray;
  const part = new Elements(colours * width * height);
  // Rows are contiguous in all orders; with `rgb2` and `rgb3` there is one for each colour.
  const rowsEach = order === "mono" || order === "rgb1" ? 1 : 3;
  const rowLength = order === "rgb1" ? 3 * width : width;
  const target = { elements: part, height, order, width };
  for (let row = 0; row < height; row += 1) {
    const [from, fromStep] = place(picture, { x: region.x, y: region.y + row });
    const [to, toStep] = place(target, { x: 0, y: row });
    for (let colour = 0; colour < rowsEach; colour += 1) {
      const begin = from + colour * fromStep;
      const source = elements.subarray(begin, begin + rowLength);
      (part as { set(source: unknown, at: number): void }).set(source, to + colour * toStep);
    }
  }
  return target;
}

/** The brightness of a pixel: its element, or the mean of its colours. */
function brightness(picture: Picture, point: Point): number {
  const elements = elementsAt(picture, point);
  return elements.reduce<number>((sum, each) => sum + Number(each), 0) / elements.length;
}

/** The pixels of a row or a column within a region. */
export function profile(picture: Picture, region: Region, at: Point, isRow: boolean): number[] {
  return Array.from({ length: isRow ? region.width : region.height }, (_, offset) =>
    brightness(
      picture,
      isRow ? { x: region.x + offset, y: at.y } : { x: at.x, y: region.y + offset },
    ),
  );
}

export interface Numbers {
  readonly low: number;
  readonly high: number;
  readonly mean: number;
}

/** Lowest, highest and mean element, without those that are no number, such as masked pixels. */
export function numbersOf({ elements }: Picture): Numbers {
  let [low, high, sum, count] = [Infinity, -Infinity, 0, 0];
  // By index: an iterator is several times slower, and an image has millions of elements.
  // eslint-disable-next-line @typescript-eslint/prefer-for-of -- see above
  for (let at = 0; at < elements.length; at += 1) {
    const element = Number(elements[at]);
    if (Number.isNaN(element)) continue;
    if (element < low) low = element;
    if (element > high) high = element;
    sum += element;
    count += 1;
  }
  return count === 0 ? { low: NaN, high: NaN, mean: NaN } : { low, high, mean: sum / count };
}

const SAMPLES = 40_000;

/** The range without the lowest and the highest hundredth, by a sample of the elements that are finite. */
export function innerRange({ elements }: Picture): [low: number, high: number] {
  const step = Math.max(1, Math.floor(elements.length / SAMPLES));
  const count = Math.floor((elements.length - 1) / step) + 1;
  const sample = Float64Array.from({ length: count }, (_, at) => Number(elements[at * step]));
  const sorted = sample.filter(Number.isFinite).sort();
  const end = Math.floor(sorted.length / 100);
  return [sorted[end] ?? 0, sorted[sorted.length - 1 - end] ?? 1];
}

/** Round numbers that divide a length into three to seven parts: the steps of an axis. */
export function ticksOf(from: number, length: number): number[] {
  const raw = length / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, power * ([1, 2, 5, 10].find((size) => size * power >= raw) ?? 10));
  const first = Math.ceil(from / step) * step;
  return Array.from(
    { length: Math.max(0, Math.ceil((from + length - first) / step)) },
    (_, at) => first + at * step,
  );
}
