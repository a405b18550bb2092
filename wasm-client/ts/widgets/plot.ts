/** Draws a curve with uPlot, which is loaded when the first plot is shown. */

import type uPlot from "uplot";

import { t } from "../texts.js";
import { layOutAxes, TICK_SPACE, type Axes } from "./axes.js";
import type { Points } from "./decimate.js";
import { pathsOf } from "./dense.js";
import { givenRange, positionIn } from "./scale.js";

/** A plot in `host` that adapts to its size. */
export interface Plot {
  readonly columns: number;
  draw: (points: Points, axes: Axes) => void;
  end: () => void;
}

const FONT = "11px system-ui, sans-serif";

/** How far beyond the axis a curve is drawn, in heights of the plot: a canvas takes no larger numbers. */
const FAR = 1e6;

export async function createPlot(host: HTMLElement): Promise<Plot> {
  const { default: UPlot } = await import("uplot").catch((error: unknown) => {
    throw new Error(t`Plots need uPlot: run "npm install uplot" in the app. ${String(error)}`);
  });
  const widthOf = labelWidths(host);
  const size = (): { width: number; height: number } => ({
    width: Math.max(80, host.clientWidth),
    height: host.clientHeight,
  });
  let points: Points = { x: [], y: [] };
  let axes: Axes = { x: [0, 1] };
  const layOut = () => layOutAxes({ ...axes, y: givenRange(axes.y) }, points, size(), widthOf);
  let layout = layOut();

  // The style sheet defines the colours for light and dark mode; these properties carry them.
  const ink = (): string => getComputedStyle(host).color;
  const grid = { stroke: () => getComputedStyle(host).columnRuleColor, width: 1 };
  // uPlot gets positions and finished ticks: its own ticks never end where a step is lost by rounding.
  const axis: uPlot.Axis = { stroke: ink, grid, ticks: grid, font: FONT, incrs: () => [1e9] };
  const plot = new UPlot(
    {
      ...size(),
      legend: { show: false },
      cursor: { show: false },
      // Half of the last label of the horizontal axis, and of the highest one of the vertical axis.
      padding: [8, () => Math.ceil(layout.widths.x / 2), 0, 0],
      scales: { x: { time: false, range: () => [...axes.x] }, y: { range: [0, 1] } },
      axes: [
        {
          ...axis,
          size: 28,
          splits: () => [...layout.ticks.x.at],
          values: () => [...layout.ticks.x.labels],
        },
        {
          ...axis,
          size: () => layout.widths.y + TICK_SPACE,
          splits: () => layout.ticks.y.at.map((tick) => positionIn(layout.y, tick)),
          values: () => [...layout.ticks.y.labels],
        },
      ],
      series: [
        {},
        {
          stroke: () => getComputedStyle(host).caretColor,
          width: 1.5,
          points: { show: false },
          paths: pathsOf(UPlot),
        },
      ],
    },
    [[], []],
    host,
  );
  const redraw = (): void => {
    layout = layOut();
    const positions = points.y.map((number) =>
      number === null ? null : Math.max(-FAR, Math.min(FAR, positionIn(layout.y, number))),
    );
    plot.batch(() => {
      plot.setData([[...points.x], positions]);
      plot.redraw(false, true);
    });
  };
  const endWatch = watch(
    host,
    () => {
      plot.setSize(size());
      redraw();
    },
    () => {
      plot.redraw(false);
    },
  );
  return {
    get columns() {
      return size().width;
    },
    draw: (newPoints, newAxes) => {
      points = newPoints;
      axes = newAxes;
      redraw();
    },
    end: () => {
      endWatch();
      plot.destroy();
    },
  };
}

/** Calls a function when the host has another size, and one when it has other colours. */
function watch(host: HTMLElement, onSize: () => void, onColours: () => void): () => void {
  const observer = new ResizeObserver(onSize);
  observer.observe(host);
  // When the page switches between light and dark, the style sheet's colour transition ends in this
  // event.
  host.addEventListener("transitionend", onColours);
  return () => {
    host.removeEventListener("transitionend", onColours);
    observer.disconnect();
  };
}

/** A function that measures the widest of some labels, in pixels. */
function labelWidths(host: HTMLElement): (labels: readonly string[]) => number {
  const context = host.ownerDocument.createElement("canvas").getContext("2d");
  return (labels) => {
    if (context === null) return 7 * Math.max(0, ...labels.map((label) => label.length));
    context.font = FONT;
    return Math.ceil(Math.max(0, ...labels.map((label) => context.measureText(label).width)));
  };
}
