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
const MAX_PIXELS = 1_000_000;

const bounded = (pixels: number): number =>
  Number.isNaN(pixels) ? 0 : Math.max(-MAX_PIXELS, Math.min(MAX_PIXELS, Math.trunc(pixels)));

export function placeOf(props: Props): Place {
  return {
    x: bounded(props.number("x")),
    y: bounded(props.number("y")),
    width: Math.max(0, bounded(props.number("width"))),
    height: Math.max(0, bounded(props.number("height"))),
  };
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
