/** Colours of an array's pixels: mono by a colour map and a range, RGB unchanged. */

import type { NumericArray, PvStructure } from "../types.js";

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly elements: NumericArray;
  /** The order of the three colours of a pixel, or `mono` for a single value. */
  readonly order: "mono" | "rgb1" | "rgb2" | "rgb3";
}

/** The colours of an image: from black to white, or through false colours. */
export type ColourMap = "grey" | "viridis" | "heat";

/** Colours at equal distances; colours between them are interpolated. */
export type ColourStops = readonly (readonly [red: number, green: number, blue: number])[];

/** A colour map by its name, or by its colours. */
export type Colours = ColourMap | ColourStops;

/** In the order of areaDetector's ColorMode. */
const ORDERS: Readonly<Record<number, Picture["order"]>> = {
  0: "mono",
  2: "rgb1",
  3: "rgb2",
  4: "rgb3",
};

/** The codec of an NTNDArray: `jpeg`, `lz4` …; empty if it isn't encoded. */
export function codecOf(structure: PvStructure | null): string {
  const { name } = (structure?.codec ?? {}) as { name?: unknown };
  return typeof name === "string" ? name : "";
}

/**
 * The picture of an NTNDArray, or of a plain array with `width` columns; `undefined` if the value
 * is not a picture.
 */
export function pictureOf(
  structure: PvStructure | null,
  array: NumericArray | readonly string[] | null,
  width: number | undefined,
): Picture | undefined {
  if (array !== null && ArrayBuffer.isView(array) && width !== undefined && width > 0) {
    const height = Math.floor(array.length / width);
    return height === 0 ? undefined : { width, height, elements: array, order: "mono" };
  }
  const content = structure?.value as { value?: unknown } | NumericArray | null | undefined;
  const elements = ArrayBuffer.isView(content)
    ? content
    : (content as { value?: unknown } | null)?.value;
  const sizes = ((structure?.dimension ?? []) as readonly PvStructure[]).map(({ size }) =>
    Number(size),
  );
  if (!ArrayBuffer.isView(elements)) return undefined;
  const attributes = (structure?.attribute ?? []) as readonly PvStructure[];
  const mode = attributes.find(({ name }) => name === "ColorMode")?.value;
  const [first = 0, second = 0, third] = sizes;
  const guessed = ["rgb1", "rgb2", "rgb3"][sizes.length === 3 ? sizes.indexOf(3) : -1] ?? "mono";
  const order = (sizes.length === 3 ? undefined : "mono") ?? ORDERS[Number(mode ?? NaN)] ?? guessed;
  const [w, h] =
    order === "rgb1" ? [second, third] : order === "rgb2" ? [first, third] : [first, second];
  if (w === 0 || h === undefined || h === 0) return undefined;
  const pixels = elements as NumericArray;
  return pixels.length < w * h * (order === "mono" ? 1 : 3)
    ? undefined
    : { width: w, height: h, elements: pixels, order: order as Picture["order"] };
}

/** Lowest and highest element. */
export function rangeOf(elements: NumericArray): readonly [number, number] {
  if (isUnsigned(elements) && elements.length > 0) return unsignedRange(elements);
  let [low, high] = [Infinity, -Infinity];
  // By index: an iterator is several times slower, and an image has millions of elements.
  // eslint-disable-next-line @typescript-eslint/prefer-for-of -- see above
  for (let at = 0; at < elements.length; at += 1) {
    const element = Number(elements[at]);
    if (element < low) low = element;
    if (element > high) high = element;
  }
  return low <= high ? [low, high] : [0, 1];
}

/** The usual types of cameras; small enough for a table with an entry for each value. */
type Unsigned = Uint8Array | Uint16Array;

const isUnsigned = (elements: NumericArray): elements is Unsigned =>
  elements instanceof Uint8Array || elements instanceof Uint16Array;

/** Uses only integers; starting with infinity would make them floating point. */
function unsignedRange(elements: Unsigned): readonly [number, number] {
  let low = elements[0] as number;
  let high = low;
  for (let at = 1; at < elements.length; at += 1) {
    const element = elements[at] as number;
    if (element < low) low = element;
    else if (element > high) high = element;
  }
  return [low, high];
}

/** Fills `rgba`, which has four bytes for each pixel. */
export function paint(
  { elements, height, order, width }: Picture,
  [low, high]: readonly [number, number],
  map: Colours,
  rgba: Uint8ClampedArray,
): void {
  const scale = high > low ? 255 / (high - low) : 0;
  const count = width * height;
  if (order === "mono") {
    const colours = coloursOf(map);
    const out = new Uint32Array(rgba.buffer, rgba.byteOffset, count);
    if (isUnsigned(elements)) {
      const table = levelColours(elements, low, scale, colours);
      for (let at = 0; at < count; at += 1) out[at] = table[elements[at] as number] as number;
      return;
    }
    for (let at = 0; at < count; at += 1) {
      out[at] = colourOf(Number(elements[at]), low, scale, colours);
    }
    return;
  }
  for (let at = 0; at < count; at += 1) {
    const row = Math.floor(at / width);
    const [from, step] =
      order === "rgb1"
        ? [3 * at, 1]
        : order === "rgb2"
          ? [3 * row * width + (at - row * width), width]
          : [at, count];
    for (let colour = 0; colour < 3; colour += 1) {
      rgba[4 * at + colour] = (Number(elements[from + colour * step]) - low) * scale;
    }
    rgba[4 * at + 3] = 255;
  }
}

function colourOf(element: number, low: number, scale: number, colours: Uint32Array): number {
  const level = (element - low) * scale;
  return colours[level <= 0 ? 0 : level >= 255 ? 255 : level | 0] as number;
}

/** The colour of each possible level: with a table, millions of pixels take a third of the time. */
function levelColours(
  { BYTES_PER_ELEMENT }: Unsigned,
  low: number,
  scale: number,
  colours: Uint32Array,
): Uint32Array {
  const table = new Uint32Array(2 ** (8 * BYTES_PER_ELEMENT));
  for (let level = 0; level < table.length; level += 1) {
    table[level] = colourOf(level, low, scale, colours);
  }
  return table;
}

const STOPS: Readonly<Record<ColourMap, ColourStops>> = {
  grey: [
    [0, 0, 0],
    [255, 255, 255],
  ],
  viridis: [
    [68, 1, 84],
    [59, 82, 139],
    [33, 145, 140],
    [94, 201, 98],
    [253, 231, 37],
  ],
  heat: [
    [0, 0, 0],
    [160, 20, 20],
    [255, 150, 0],
    [255, 255, 220],
  ],
};

const stopsOf = (map: Colours): ColourStops => (typeof map === "string" ? STOPS[map] : map);

/** The same colours from bottom to top, as a CSS gradient. */
export function gradientOf(map: Colours): string {
  return `linear-gradient(to top, ${stopsOf(map)
    .map((stop) => `rgb(${stop.join(" ")})`)
    .join(", ")})`;
}

const tables = new WeakMap<ColourStops, Uint32Array>();

/** 256 colours in memory order: red, green, blue, opacity. */
export function coloursOf(map: Colours): Uint32Array {
  const stops = stopsOf(map);
  const made = tables.get(stops);
  if (made !== undefined) return made;
  const bytes = new Uint8ClampedArray(4 * 256);
  for (let level = 0; level < 256; level += 1) {
    const place = (level / 255) * (stops.length - 1);
    const at = Math.min(stops.length - 2, Math.floor(place));
    const [from, to] = [stops[at], stops[at + 1]];
    for (let colour = 0; colour < 3; colour += 1) {
      const [a, b] = [from?.[colour] ?? 0, to?.[colour] ?? 0];
      bytes[4 * level + colour] = a + (b - a) * (place - at);
    }
    bytes[4 * level + 3] = 255;
  }
  const table = new Uint32Array(bytes.buffer);
  tables.set(stops, table);
  return table;
}
