/** Draws a curve with uPlot, which is loaded when the first plot is shown. */

import type uPlot from "uplot";

import type { Points } from "./decimate.js";

export interface PlotOptions {
  readonly height: number;
  /** Whether x is in seconds past the POSIX epoch; otherwise it is an index. */
  readonly isTime: boolean;
  readonly yRange: readonly [number, number] | undefined;
}

/** A plot in `host` that adapts to its width. */
export interface Plot {
  readonly columns: number;
  draw: (points: Points, xRange?: readonly [number, number]) => void;
  end: () => void;
}

export async function createPlot(host: HTMLElement, options: PlotOptions): Promise<Plot> {
  const { default: UPlot } = await import("uplot").catch((error: unknown) => {
    throw new Error(`Plots need uPlot: run "npm install uplot" in the app. ${String(error)}`);
  });
  // The style sheet defines the colours for light and dark mode; these properties carry them.
  const ink = (): string => getComputedStyle(host).color;
  const grid = { stroke: () => getComputedStyle(host).columnRuleColor, width: 1 };
  const axis: uPlot.Axis = { stroke: ink, grid, ticks: grid, font: "11px system-ui, sans-serif" };
  const { isTime, yRange } = options;
  let xRange: readonly [number, number] | undefined;
  const size = (): { width: number; height: number } => ({
    width: Math.max(80, host.clientWidth),
    height: options.height,
  });
  const plot = new UPlot(
    {
      ...size(),
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: {
          time: isTime,
          range: (_, low, high) => [...(xRange ?? [low, high])] as [number, number],
        },
        y:
          yRange === undefined
            ? { range: (_, low, high) => around(low, high) }
            : { range: [...yRange] as [number, number] },
      },
      axes: [
        { ...axis, size: 28, space: isTime ? 84 : 50, values: isTime ? clockValues : axisValues },
        { ...axis, size: 52, values: axisValues },
      ],
      series: [
        {},
        { stroke: () => getComputedStyle(host).caretColor, width: 1.5, points: { show: false } },
      ],
    },
    [[], []],
    host,
  );
  const observer = new ResizeObserver(() => {
    plot.setSize(size());
  });
  observer.observe(host);
  // When the page switches between light and dark, the style sheet's colour transition ends in this
  // event.
  const redraw = (): void => {
    plot.redraw(false);
  };
  host.addEventListener("transitionend", redraw);
  return {
    get columns() {
      return size().width;
    },
    draw: ({ x, y }, range) => {
      xRange = range;
      plot.setData([[...x], [...y]]);
    },
    end: () => {
      host.removeEventListener("transitionend", redraw);
      observer.disconnect();
      plot.destroy();
    },
  };
}

/** A range with space above and below, also for a flat curve. */
function around(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high))
    return [0, 1];
  const room = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.08;
  return [low - room, high + room];
}

const axisValues = (_: unknown, splits: readonly number[]): string[] =>
  splits.map((split) => String(Number(split.toPrecision(6))));

const clockValues = (_: unknown, splits: readonly number[]): string[] =>
  splits.map((split) => new Date(split * 1000).toTimeString().slice(0, 8));
