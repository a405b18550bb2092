/** Colours, fonts and classes by name: those that every display has, and those of a facility's files. */

import { classesOf, type WidgetClasses } from "./classes.js";
import { parseDisplay } from "./file.js";

/** Red, green, blue and alpha, each 0 to 255. */
export type Rgba = readonly [red: number, green: number, blue: number, alpha: number];

/** A font; `size` is in pixels. */
export interface Font {
  /** Its name, such as `Liberation Sans`. */
  readonly family: string;
  /** Height in pixels. */
  readonly size: number;
  /** Heavy or regular. */
  readonly bold: boolean;
  /** Slanted or upright. */
  readonly italic: boolean;
}

/** The named colours and fonts, and the classes of widgets, that displays refer to. */
export interface Palette {
  /** By name in small letters. */
  readonly colours: ReadonlyMap<string, Rgba>;
  /** By name. */
  readonly fonts: ReadonlyMap<string, Font>;
  /** Of a `classes.bcf`. @default none */
  readonly classes?: WidgetClasses;
}

const opaque = (red: number, green: number, blue: number): Rgba => [red, green, blue, 255];

const COLOURS: readonly (readonly [string, Rgba])[] = [
  ["ok", opaque(0, 255, 0)],
  ["minor", opaque(255, 128, 0)],
  ["major", opaque(255, 0, 0)],
  ["invalid", opaque(255, 0, 255)],
  ["disconnected", [200, 0, 200, 200]],
  ["text", opaque(0, 0, 0)],
  ["activetext", opaque(255, 255, 0)],
  ["background", opaque(255, 255, 255)],
  ["read_background", opaque(240, 240, 240)],
  ["write_background", opaque(128, 255, 255)],
  ["button_background", opaque(210, 210, 210)],
  ["header_background", opaque(77, 77, 77)],
  ["header_foreground", opaque(255, 255, 255)],
  ["stop", opaque(255, 0, 0)],
  ["attention", opaque(255, 160, 0)],
  ["on", opaque(0, 255, 0)],
  ["off", opaque(60, 100, 60)],
  ["grid", opaque(128, 128, 128)],
];

const FAMILY = "Liberation Sans";

const fontOf = (size: number, bold = false, italic = false): Font => ({
  family: FAMILY,
  size,
  bold,
  italic,
});

const FONTS: readonly (readonly [string, Font])[] = [
  ["Default", fontOf(14)],
  ["Default Bold", fontOf(14, true)],
  ["Header 1", fontOf(22, true)],
  ["Header 2", fontOf(18, true)],
  ["Header 3", fontOf(16, true)],
  ["Comment", fontOf(14, false, true)],
  ["Fine Print", fontOf(12)],
  ["Oddball", { ...fontOf(40), family: "Comic Sans MS" }],
];

/** The palette of a facility without its own files. */
export const DEFAULT_PALETTE: Palette = { colours: new Map(COLOURS), fonts: new Map(FONTS) };

/**
 * The palette with the contents of a `color.def`, a `font.def` and a `classes.bcf`. Lines with errors
 * are left out, and classes of a file that isn't XML; displays that name these classes list them.
 */
export function paletteOf(files: { colours?: string; fonts?: string; classes?: string }): Palette {
  const colours = new Map(COLOURS);
  for (const [name, value] of linesOf(files.colours)) {
    const colour = /^alias\s*\((.*)\)$/i.exec(value)?.[1] ?? value;
    const found = colours.get(colour.trim().toLowerCase()) ?? numbersOf(colour);
    if (found !== undefined) colours.set(name.toLowerCase(), found);
  }
  const fonts = new Map(FONTS);
  for (const [name, value] of linesOf(files.fonts)) {
    // A name may have the operating system it is for in brackets; browsers are none of them.
    const [, plain = name, system] = /^(.*?)\s*\(([^()]*)\)$/.exec(name) ?? [];
    if (system !== undefined && !/^linux$/i.test(system)) continue;
    const found = value.startsWith("@") ? fonts.get(value.slice(1).trim()) : lineFont(value);
    if (found !== undefined) fonts.set(plain, found);
  }
  return { colours, fonts, classes: classesIn(files.classes) };
}

function classesIn(text = ""): WidgetClasses {
  try {
    return text === "" ? new Map() : classesOf(parseDisplay(text));
  } catch {
    return new Map();
  }
}

function linesOf(text = ""): (readonly [name: string, value: string])[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#") && !line.startsWith("//"))
    .flatMap((line) => {
      const sign = line.indexOf("=");
      if (sign < 1) return [];
      return [[line.slice(0, sign).trim(), line.slice(sign + 1).trim()] as const];
    });
}

function numbersOf(text: string): Rgba | undefined {
  const parts = text.split(",").map((part) => Number(part.trim()));
  const [red, green, blue, alpha = 255] = parts;
  if (red === undefined || green === undefined || blue === undefined) return undefined;
  const all = [red, green, blue, alpha];
  if (!all.every((part) => Number.isInteger(part) && part >= 0 && part <= 255)) return undefined;
  return [red, green, blue, alpha];
}

function lineFont(text: string): Font | undefined {
  const parts = text.split("-").map((part) => part.trim());
  const size = Number(parts.pop());
  const style = parts.pop() ?? "";
  if (parts.length === 0 || !(size > 0)) return undefined;
  return { family: parts.join("-"), size, ...styleOf(style) };
}

/** Bold and italic, as files write them. */
export function styleOf(style: string): Pick<Font, "bold" | "italic"> {
  return { bold: /bold/i.test(style), italic: /italic/i.test(style) };
}

/** As CSS writes it. */
export function cssColour([red, green, blue, alpha]: Rgba): string {
  const rgb = `${String(red)} ${String(green)} ${String(blue)}`;
  return alpha === 255 ? `rgb(${rgb})` : `rgb(${rgb} / ${(alpha / 255).toFixed(3)})`;
}

/** Perceived brightness, 0 to 1. */
export const brightnessOf = ([red, green, blue]: Rgba): number =>
  (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
