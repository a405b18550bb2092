/** What is painted of present values, as a browser draws the elements that it stands for. */

import { cssColour, type Rgba } from "./model/palette.js";
import type { Props } from "./model/props.js";
import type { Painter, Room } from "./painting.js";
import { alignmentOf, cssFont, lampLine, LINE_HEIGHT, placeOf } from "./place.js";
import type { WidgetPv } from "./use_widget_pv.js";

/** Where the first line's letters stand in a line, by the font: as browsers round it. */
const baselines = new Map<string, number>();

function baselineOf(context: CanvasRenderingContext2D, font: string, size: number): number {
  let baseline = baselines.get(font);
  if (baseline === undefined) {
    const { fontBoundingBoxAscent, fontBoundingBoxDescent } = context.measureText("0");
    const [above, below] = [Math.round(fontBoundingBoxAscent), Math.round(fontBoundingBoxDescent)];
    baseline = above + Math.floor((LINE_HEIGHT * size - above - below) / 2);
    baselines.set(font, baseline);
  }
  return baseline;
}

const ALONG = ["start", "center", "end"];
const ALIGNED = ["left", "center", "right"];

/** A text on one line that fits into its box, which `seenOf` tells. */
export function textPainter(props: Props, seenOf: Painter["seenOf"]): Painter {
  const place = placeOf(props);
  const { fontFamily, fontSize, fontStyle, fontWeight } = cssFont(props.font());
  const size = Number(fontSize);
  const font = `${String(fontStyle)} ${String(fontWeight)} ${String(size)}px ${String(fontFamily)}`;
  const ink = cssColour(props.colour("foreground_color"));
  const { alignItems, textAlign } = alignmentOf(props);
  const across = Math.max(0, ALONG.indexOf(String(textAlign)));
  const down = Math.max(0, ALONG.indexOf(String(alignItems))) / 2;
  return {
    place,
    seenOf,
    font,
    paint: (context, text, { height, width }) => {
      context.fillStyle = ink;
      context.textAlign = ALIGNED[across] as CanvasTextAlign;
      const top = down * (height - LINE_HEIGHT * size);
      context.fillText(text, (across / 2) * width, top + baselineOf(context, font, size));
    },
  };
}

/** A lamp without a label. */
export function lampPainter(props: Props, colourOf: (now: WidgetPv) => Rgba | undefined): Painter {
  const place = placeOf(props);
  const edge = cssColour(props.colour("line_color"));
  const isSquare = props.flag("square");
  // As browsers round borders.
  const line = Math.floor(lampLine(props));
  const shape = (
    context: CanvasRenderingContext2D,
    { height, width }: Room,
    inset: number,
  ): void => {
    const [across, down] = [Math.max(0, width - 2 * inset), Math.max(0, height - 2 * inset)];
    if (isSquare) context.rect(inset, inset, across, down);
    else context.ellipse(width / 2, height / 2, across / 2, down / 2, 0, 0, 2 * Math.PI);
  };
  return {
    place,
    seenOf: (now) => {
      const colour = colourOf(now);
      return colour && cssColour(colour);
    },
    paint: (context, colour, room) => {
      context.beginPath();
      shape(context, room, 0);
      context.fillStyle = colour;
      context.fill();
      context.moveTo(room.width - line, room.height / 2);
      shape(context, room, line);
      context.fillStyle = edge;
      context.fill("evenodd");
    },
  };
}

interface BarColours {
  readonly isAcross: boolean;
  readonly fill: string;
  readonly empty: string;
}

/** The line around a bar, of the style sheet. */
const BAR_LINE = "rgb(0 0 0 / 0.35)";

/** A bar without a scale and marks; `positionOf` is from 0 to 1. */
export function barPainter(
  props: Props,
  { empty, fill, isAcross }: BarColours,
  positionOf: (now: WidgetPv) => number | undefined,
): Painter {
  const place = placeOf(props);
  const full = (isAcross ? place.width : place.height) - 2;
  return {
    place,
    seenOf: (now) => {
      const position = positionOf(now);
      // For screens of up to four pixels to one.
      return position === undefined ? undefined : (Math.round(position * full * 4) / 4).toString();
    },
    paint: (context, seen, { height, ratio, width }) => {
      const length = Math.round(Number(seen) * ratio) / ratio;
      context.fillStyle = empty;
      context.fillRect(0, 0, width, height);
      context.fillStyle = fill;
      if (isAcross) context.fillRect(1, 1, length, height - 2);
      else context.fillRect(1, height - 1 - length, width - 2, length);
      context.strokeStyle = BAR_LINE;
      context.lineWidth = 1;
      context.strokeRect(0.5, 0.5, width - 1, height - 1);
    },
  };
}
