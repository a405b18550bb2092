/** Where a widget is, in pixels of its display, and CSS of its fonts and colours. */

import type { CSSProperties } from "react";

import { cssColour, type Font } from "./model/palette.js";
import type { Props } from "./model/props.js";

/** A box relative to the widget around it. */
export interface Place {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Browsers lay out boxes up to some 33 million pixels. */
export const MAX_PIXELS = 1_000_000;

const bounded = (pixels: number): number =>
  Number.isNaN(pixels) ? 0 : Math.max(-MAX_PIXELS, Math.min(MAX_PIXELS, Math.trunc(pixels)));

const places = new WeakMap<Props, Place>();

/** Worked out once: what is drawn of a widget asks for it many times. */
export function placeOf(props: Props): Place {
  let place = places.get(props);
  if (place === undefined) {
    place = {
      x: bounded(props.number("x")),
      y: bounded(props.number("y")),
      width: Math.max(0, bounded(props.number("width"))),
      height: Math.max(0, bounded(props.number("height"))),
    };
    places.set(props, place);
  }
  return place;
}

/** The style of a widget's box. */
export function boxStyle(props: Props, style: CSSProperties | undefined): CSSProperties {
  const { height, width, x, y } = placeOf(props);
  return { left: x, top: y, width, height, ...style };
}

/** Names of properties in CSS. */
const names = new Map<string, string>();

function cssName(name: string): string {
  const known = names.get(name) ?? name.replace(/[A-Z]/g, "-$&").toLowerCase();
  names.set(name, known);
  return known;
}

/** A style as one text: a browser takes it in a fraction of the time of its properties one by one. */
export function cssText(style: CSSProperties): string {
  let text = "";
  for (const [name, value] of Object.entries(style)) {
    const unit = typeof value === "number" && name !== "fontWeight" ? "px" : "";
    if (value !== undefined) text += `${cssName(name)}:${String(value)}${unit};`;
  }
  return text;
}

/** Of the style sheet, in sizes of the font. */
export const LINE_HEIGHT = 1.15;

/** A font as CSS. Liberation Sans has the widths of Arial, and Liberation Mono those of Courier New. */
export function cssFont({ bold, family, italic, size }: Font): CSSProperties {
  const plain = family.replace(/["\\]/g, "");
  const generic = /mono|courier|console/i.test(plain)
    ? '"Liberation Mono", "Courier New", monospace'
    : /serif|times/i.test(plain) && !/sans/i.test(plain)
      ? '"Liberation Serif", "Times New Roman", serif'
      : '"Liberation Sans", Arimo, Arial, Helvetica, sans-serif';
  return {
    fontFamily: `"${plain}", ${generic}`,
    fontSize: size,
    fontStyle: italic ? "italic" : "normal",
    fontWeight: bold ? 700 : 400,
  };
}

/** Font and colours of a widget with text. */
export function inkOf(props: Props, ground: "filled" | "open" = "filled"): CSSProperties {
  const isFilled = ground === "filled" && !props.flag("transparent");
  return {
    ...cssFont(props.font()),
    color: cssColour(props.colour("foreground_color")),
    ...(isFilled ? { backgroundColor: cssColour(props.colour("background_color")) } : {}),
  };
}

const ACROSS = ["start", "center", "end"] as const;

/** Alignment of the text in a widget's box. */
export function alignmentOf(props: Props): CSSProperties {
  const across = at(props, "horizontal_alignment", ["LEFT", "CENTER", "RIGHT"]);
  const down = at(props, "vertical_alignment", ["TOP", "MIDDLE", "BOTTOM"]);
  return {
    display: "flex",
    justifyContent: ACROSS[across] ?? "start",
    textAlign: ACROSS[across] ?? "start",
    alignItems: ACROSS[down] ?? "start",
  };
}

function at(props: Props, name: string, choices: readonly string[]): number {
  return Math.max(0, choices.indexOf(props.choice(name, choices)));
}

/** The size of a widget that takes that of its content. */
export const autoSize = (props: Props): CSSProperties =>
  props.flag("auto_size") ? { width: "fit-content", height: "fit-content" } : {};

/** A border of the widget's own, which is inside its box. */
export function borderOf(props: Props): CSSProperties {
  const width = props.integer("border_width");
  if (width <= 0) return {};
  const colour = cssColour(props.colour("border_color"));
  return { boxShadow: `inset 0 0 0 ${String(width)}px ${colour}` };
}

/** Width of the line around a lamp, in pixels. */
export const lampLine = (props: Props): number => {
  const { height, width } = placeOf(props);
  return Math.max(1, Math.min(width, height) / 10);
};
