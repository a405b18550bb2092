/** Draws curves with their axes on a canvas, in given colours and fonts: of displays, and of plots against a PV. */

import { Columns } from "../widgets/dense.js";
import { positionIn, rangeAround, widened, type Range } from "../widgets/scale.js";
import { ticksOf, timeTicks, type Ticks } from "../widgets/ticks.js";

/** A curve; `null` and NaN are gaps. */
export interface Curve {
  readonly name: string;
  readonly x: ArrayLike<number | bigint>;
  readonly y: ArrayLike<number | bigint | null>;
  /** Index of its vertical axis. */
  readonly axis: number;
  readonly colour: string;
  readonly width: number;
  readonly dash: readonly number[];
  readonly kind: "none" | "line" | "step" | "bars";
  /** Side of a point in pixels; 0 without points. */
  readonly point: number;
}

export interface Axis {
  readonly title: string;
  /** `undefined`: the range of the data. */
  readonly range: Range | undefined;
  readonly isLog: boolean;
  readonly withGrid: boolean;
  readonly isShown: boolean;
  readonly colour: string;
  readonly onRight: boolean;
  /** Numbers at which a dashed line crosses the plot. */
  readonly limits?: readonly Limit[];
}

export interface Limit {
  readonly at: number;
  readonly dash: readonly number[];
}

export interface Drawing {
  readonly title: string;
  readonly titleFont: string;
  readonly font: string;
  readonly fontSize: number;
  readonly ink: string;
  readonly grid: string;
  readonly withLegend: boolean;
  readonly x: Axis;
  readonly y: readonly Axis[];
  /** The time at x = 0 in seconds past the POSIX epoch, if x is a time. */
  readonly time?: number | undefined;
  readonly curves: readonly Curve[];
}

/** The rectangle between the axes, in pixels. */
export interface Room {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** The axes as they were drawn. */
export interface Placed {
  readonly room: Room;
  readonly x: Range;
  readonly y: readonly Range[];
}

/** Curves may reach this far beyond their axis, in pixels: a canvas takes no larger numbers. */
const FAR = 1e5;

/** The room of the title, above the curves. */
export function titleHeight({
  fontSize,
  title,
  titleFont,
}: Pick<Drawing, "fontSize" | "title" | "titleFont">): number {
  const size = Number(/([\d.]+)px/.exec(titleFont)?.[1] ?? 0);
  return title === "" ? 4 : Math.max(fontSize + 12, size + 4);
}

/** Draws in a context whose units are pixels of the page. Returns `undefined` where there is no room for curves. */
export function draw(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  drawing: Drawing,
): Placed | undefined {
  context.clearRect(0, 0, width, height);
  const { curves, font, fontSize, ink, titleFont, x, y } = drawing;
  context.font = font;
  context.textBaseline = "middle";
  const xRange = rangeOf(x, curves, "x");
  const yRanges = y.map((axis, at) =>
    rangeOf(
      axis,
      curves.filter((curve) => curve.axis === at),
      "y",
    ),
  );
  const legend = drawing.withLegend && curves.length > 0 ? fontSize + 8 : 0;
  const above = titleHeight(drawing);
  const top = above + 2;
  const bottom =
    height -
    legend -
    (x.isShown ? fontSize + 8 : 4) -
    (x.title !== "" && x.isShown ? fontSize + 2 : 0);
  const yTicks = yRanges.map((range) =>
    ticksOf(range, Math.max(1, (bottom - top) / (2.2 * fontSize))),
  );
  const widths = y.map((axis, at) =>
    axis.isShown ? widthOf(context, yTicks[at]) + 8 + (axis.title === "" ? 0 : fontSize + 4) : 0,
  );
  const sum = (onRight: boolean): number =>
    widths.reduce((all, each, at) => all + (y[at]?.onRight === onRight ? each : 0), 0);
  const room: Room = { left: 6 + sum(false), right: width - 8 - sum(true), top, bottom };
  if (room.right - room.left < 10 || room.bottom - room.top < 10) return undefined;
  if (drawing.title !== "") {
    context.font = titleFont;
    context.fillStyle = ink;
    context.textAlign = "center";
    context.fillText(drawing.title, width / 2, above / 2, width);
    context.font = font;
  }
  drawXAxis(context, drawing, xRange, room);
  let [left, right] = [room.left, room.right];
  y.forEach((axis, at) => {
    const own = widths[at] ?? 0;
    const edge = axis.onRight ? right : left;
    drawYAxis(context, { axis, edge, own, room, drawing }, yRanges[at] ?? [0, 1], yTicks[at]);
    if (axis.onRight) right += own;
    else left -= own;
  });
  context.save();
  context.beginPath();
  context.rect(room.left, room.top, room.right - room.left, room.bottom - room.top);
  context.clip();
  for (const { at, dash } of x.limits ?? []) {
    const place = placer(xRange, x.isLog, room.left, room.right)(at);
    drawLimit(context, [place, room.top, place, room.bottom], x.colour, dash);
  }
  y.forEach(({ colour, isLog, limits = [] }, index) => {
    for (const { at, dash } of limits) {
      const place = placer(yRanges[index] ?? [0, 1], isLog, room.bottom, room.top)(at);
      drawLimit(context, [room.left, place, room.right, place], colour, dash);
    }
  });
  for (const curve of curves) {
    const axis = y[curve.axis];
    if (axis === undefined) continue;
    drawCurve(context, curve, {
      x: placer(xRange, x.isLog, room.left, room.right),
      y: placer(yRanges[curve.axis] ?? [0, 1], axis.isLog, room.bottom, room.top),
      base: room.bottom,
      left: room.left,
      columns: room.right - room.left,
    });
  }
  context.restore();
  if (legend > 0) drawLegend(context, drawing, height - legend / 2, width);
  return { room, x: xRange, y: yRanges };
}

/** From a number to pixels; NaN for what a logarithmic axis has no place for. */
function placer(
  range: Range,
  isLog: boolean,
  from: number,
  to: number,
): (number: number) => number {
  const isLogarithmic = isLog && range[0] > 0;
  const ends: Range = isLogarithmic ? [Math.log10(range[0]), Math.log10(range[1])] : range;
  return (number) => {
    if (isLogarithmic && number <= 0) return NaN;
    const place =
      from + (to - from) * positionIn(ends, isLogarithmic ? Math.log10(number) : number);
    return Math.max(-FAR, Math.min(FAR, place));
  };
}

export function rangeOf(axis: Axis, curves: readonly Curve[], of: "x" | "y"): Range {
  if (axis.range !== undefined) return axis.range;
  let [low, high] = [Infinity, -Infinity];
  for (const curve of curves) {
    const numbers = curve[of];
    for (const each of Array.from(numbers)) {
      const number = Number(each ?? NaN);
      if (!Number.isFinite(number) || (axis.isLog && number <= 0)) continue;
      if (number < low) low = number;
      if (number > high) high = number;
    }
  }
  const isTight = of === "x" || (axis.isLog && low > 0);
  return isTight && low < high ? widened(low, high) : rangeAround(low, high);
}

const widthOf = (context: CanvasRenderingContext2D, ticks: Ticks | undefined): number =>
  Math.ceil(Math.max(0, ...(ticks?.labels ?? []).map((label) => context.measureText(label).width)));

function drawXAxis(
  context: CanvasRenderingContext2D,
  drawing: Drawing,
  range: Range,
  room: Room,
): void {
  const { fontSize, grid, ink, time, x } = drawing;
  const width = room.right - room.left;
  const ticks =
    time === undefined
      ? ticksOf(range, Math.max(1, width / (4 * fontSize)))
      : shifted(
          timeTicks([range[0] + time, range[1] + time], Math.max(1, width / (6 * fontSize))),
          time,
        );
  const place = placer(range, x.isLog, room.left, room.right);
  context.strokeStyle = ink;
  context.lineWidth = 1;
  line(context, room.left, room.bottom + 0.5, room.right, room.bottom + 0.5);
  ticks.at.forEach((tick, at) => {
    const pixels = Math.round(place(tick)) + 0.5;
    if (x.withGrid) {
      context.strokeStyle = grid;
      line(context, pixels, room.top, pixels, room.bottom);
      context.strokeStyle = ink;
    }
    if (!x.isShown) return;
    line(context, pixels, room.bottom, pixels, room.bottom + 4);
    context.fillStyle = ink;
    context.textAlign = "center";
    context.fillText(ticks.labels[at] ?? "", pixels, room.bottom + 5 + fontSize / 2);
  });
  if (x.title === "" || !x.isShown) return;
  context.textAlign = "center";
  context.fillStyle = ink;
  const middle = (room.left + room.right) / 2;
  context.fillText(x.title, middle, room.bottom + 8 + fontSize * 1.5, width);
}

const shifted = ({ at, labels }: Ticks, time: number): Ticks => ({
  at: at.map((tick) => tick - time),
  labels,
});

interface YAxisPlace {
  readonly axis: Axis;
  /** The horizontal place of its line. */
  readonly edge: number;
  /** Its width. */
  readonly own: number;
  readonly room: Room;
  readonly drawing: Drawing;
}

function drawYAxis(
  context: CanvasRenderingContext2D,
  { axis, drawing, edge, own, room }: YAxisPlace,
  range: Range,
  ticks: Ticks | undefined,
): void {
  const place = placer(range, axis.isLog, room.bottom, room.top);
  const side = axis.onRight ? 1 : -1;
  if (axis.isShown) {
    context.strokeStyle = axis.colour;
    line(context, edge - 0.5, room.top, edge - 0.5, room.bottom);
  }
  ticks?.at.forEach((tick, at) => {
    const pixels = Math.round(place(tick)) + 0.5;
    if (axis.withGrid) {
      context.strokeStyle = drawing.grid;
      line(context, room.left, pixels, room.right, pixels);
    }
    if (!axis.isShown) return;
    context.strokeStyle = axis.colour;
    line(context, edge, pixels, edge + 4 * side, pixels);
    context.fillStyle = axis.colour;
    context.textAlign = axis.onRight ? "left" : "right";
    context.fillText(ticks.labels[at] ?? "", edge + 6 * side, pixels);
  });
  if (axis.title === "" || !axis.isShown) return;
  context.save();
  context.translate(edge + side * (own - drawing.fontSize / 2), (room.top + room.bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillStyle = axis.colour;
  context.fillText(axis.title, 0, 0, room.bottom - room.top);
  context.restore();
}

function line(context: CanvasRenderingContext2D, ...ends: [number, number, number, number]): void {
  context.beginPath();
  context.moveTo(ends[0], ends[1]);
  context.lineTo(ends[2], ends[3]);
  context.stroke();
}

function drawLimit(
  context: CanvasRenderingContext2D,
  ends: [number, number, number, number],
  colour: string,
  dash: readonly number[],
): void {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash([...dash]);
  line(context, ...ends);
  context.setLineDash([]);
}

interface Placing {
  readonly x: (number: number) => number;
  readonly y: (number: number) => number;
  readonly base: number;
  readonly left: number;
  readonly columns: number;
}

function drawCurve(context: CanvasRenderingContext2D, curve: Curve, placing: Placing): void {
  const { colour, dash, kind, point, width } = curve;
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = width;
  const columns = new Columns(placing.left, placing.columns);
  if (kind === "line" && dash.length === 0) {
    eachPoint(curve, placing, columns.add.bind(columns), columns.endLine.bind(columns));
    // Its points would be one on the other.
    if (columns.isDense) {
      columns.fill(context, width);
      return;
    }
  }
  context.setLineDash([...dash]);
  context.beginPath();
  let lastY: number | undefined;
  eachPoint(
    curve,
    placing,
    (x, y) => {
      if (kind === "bars") context.moveTo(x, placing.base);
      if (kind === "step" && lastY !== undefined) context.lineTo(x, lastY);
      if (kind !== "none") {
        if (lastY === undefined && kind !== "bars") context.moveTo(x, y);
        else context.lineTo(x, y);
      }
      if (point > 0) context.fillRect(x - point / 2, y - point / 2, point, point);
      lastY = y;
    },
    () => {
      lastY = undefined;
    },
  );
  context.stroke();
  context.setLineDash([]);
}

/** Calls `add` with the points in pixels, and `end` at gaps. */
function eachPoint(
  { x, y }: Curve,
  placing: Placing,
  add: (x: number, y: number) => void,
  end: () => void,
): void {
  for (let at = 0; at < Math.min(x.length, y.length); at += 1) {
    const [oneX, oneY] = [Number(x[at]), Number(y[at] ?? NaN)];
    const [px, py] = [placing.x(oneX), placing.y(oneY)];
    // A canvas ignores NaN, and would join what is before it with what follows.
    if (Number.isFinite(oneX + oneY + px + py)) add(px, py);
    else end();
  }
}

function drawLegend(
  context: CanvasRenderingContext2D,
  drawing: Drawing,
  y: number,
  width: number,
): void {
  context.textAlign = "left";
  let x = 10;
  for (const { colour, name } of drawing.curves) {
    context.strokeStyle = colour;
    context.lineWidth = 2;
    line(context, x, y, x + 14, y);
    context.fillStyle = drawing.ink;
    context.fillText(name, x + 18, y, Math.max(10, width - x - 20));
    x += 30 + context.measureText(name).width;
  }
}
