/** The properties of plots: axes, traces and fonts. */

import type { Axis, Curve, Drawing } from "../../plots/draw.js";
import { givenRange } from "../../widgets/scale.js";
import { cssColour, type Font, type Rgba } from "../model/palette.js";
import type { Props } from "../model/props.js";
import { cssFont } from "../place.js";

/** Colours of traces without one. */
const COLOURS: readonly Rgba[] = [
  [21, 21, 196, 255],
  [242, 26, 26, 255],
  [33, 179, 33, 255],
  [0, 0, 0, 255],
  [128, 0, 255, 255],
  [255, 170, 0, 255],
  [255, 0, 240, 255],
  [0, 200, 200, 255],
];

const TRACE_KINDS = ["NONE", "LINE", "STEP", "ERRORBARS", "LINE_ERRORBARS", "BARS"];
const KINDS = ["none", "line", "step", "none", "line", "bars"] as const;
const DASHES = [[], [10, 5], [2, 3], [10, 5, 2, 5], [10, 5, 2, 5, 2, 5]] as const;
const STYLES = ["SOLID", "DASH", "DOT", "DASHDOT", "DASHDOTDOT"];
const POINTS = ["NONE", "SQUARES", "CIRCLES", "DIAMONDS", "X", "TRIANGLES"];

/** A trace with the PVs that it is of. */
export interface Trace extends Omit<Curve, "x" | "y"> {
  readonly xName: string;
  readonly yName: string;
  readonly isVisible: boolean;
}

export function tracesOf(props: Props): Trace[] {
  return props.list("traces").map((trace, at) => {
    const yName = trace.text("y_pv");
    const isPoint = trace.choice("point_type", POINTS, "NONE") !== "NONE";
    return {
      name: trace.text("name", yName).replace(/^\$\(traces\[\d+\]\.y_pv\)$/, yName),
      xName: trace.text("x_pv"),
      yName,
      axis: trace.integer("axis", 0),
      colour: cssColour(trace.colour("color", COLOURS[at % COLOURS.length] ?? [0, 0, 0, 255])),
      width: Math.max(0, trace.integer("line_width", 1)),
      dash: DASHES[STYLES.indexOf(trace.choice("line_style", STYLES, "SOLID"))] ?? [],
      kind: KINDS[TRACE_KINDS.indexOf(trace.choice("trace_type", TRACE_KINDS, "LINE"))] ?? "line",
      point: isPoint ? trace.integer("point_size", 10) : 0,
      isVisible: trace.flag("visible", true),
    };
  });
}

export function axisOf(axis: Props, ink: Rgba, isAuto: boolean): Axis {
  const range = givenRange([axis.number("minimum", 0), axis.number("maximum", 100)]);
  return {
    title: axis.text("title", ""),
    range: axis.flag("autoscale", isAuto) ? undefined : range,
    isLog: axis.flag("log_scale", false),
    withGrid: axis.flag("show_grid", axis.flag("grid", false)),
    isShown: axis.flag("visible", true),
    colour: cssColour(axis.has("color") ? axis.colour("color") : ink),
    onRight: axis.flag("on_right", false),
  };
}

/** At least one vertical axis. */
export function yAxesOf(props: Props, isAuto: boolean): Axis[] {
  const ink = props.colour("foreground_color");
  const axes = props.list("y_axes").map((axis) => axisOf(axis, ink, isAuto));
  return axes.length > 0 ? axes : [axisOf(props.sub("none"), ink, isAuto)];
}

const canvasFont = (font: Font): string => {
  const { fontFamily } = cssFont(font);
  return `${font.italic ? "italic " : ""}${font.bold ? "bold " : ""}${String(font.size)}px ${String(fontFamily)}`;
};

/** What a drawing has besides its curves and horizontal axis. */
export function lookOf(props: Props, scale: Font): Omit<Drawing, "curves" | "x" | "y" | "time"> {
  return {
    title: props.text("title"),
    titleFont: canvasFont(props.font("title_font", "Header 2")),
    font: canvasFont(scale),
    fontSize: scale.size,
    ink: cssColour(props.colour("foreground_color")),
    grid: "rgb(128 128 128 / 0.35)",
    withLegend: props.flag("show_legend"),
  };
}
