/** Draws curves with uPlot: an axis for each unit, limits, a cursor, and the choice of an interval. */

import type uPlot from "uplot";

import { pathsOf } from "../widgets/dense.js";
import { logText, tickTexts } from "./numbers.js";
import { curveOf, gridOf, type Span, stepsOf } from "./steps.js";
import { formatDate } from "./times.js";
import type { Trace } from "./traces.js";

/** Space above and below the curves, as a part of their range. */
const MARGIN = 0.08;

/** In a smaller range, relative to its numbers or at all, a tick could be the same double as the one before. */
const LEAST_RELATIVE = 2 ** -46;
const LEAST = 1e-300;

const finite = (number: number): number =>
  Math.min(Number.MAX_VALUE, Math.max(-Number.MAX_VALUE, number));

/** A range with room; a value that doesn't change is above or below the middle by `shift`, so that several are seen. */
export function padded(low: number | null, high: number | null, shift: number): [number, number] {
  if (low === null || high === null || !Number.isFinite(high - low)) return [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = high > low ? MARGIN * (high - low) : Math.abs(low) * 0.1 || 1;
  const least = Math.max(room, size * LEAST_RELATIVE, LEAST);
  const by = high > low ? 0 : shift;
  return [finite(low - least * (1 + by)), finite(high + least * (1 - by))];
}

export interface ChartOptions {
  readonly isLog: boolean;
  readonly isUtc: boolean;
  readonly hasLimits: boolean;
  /** Charts with one key have one cursor. */
  readonly syncKey: string;
  /** Width of the vertical axis, where charts are below each other; otherwise that of its texts. */
  readonly axisWidth: number | undefined;
  readonly onCursor: (time: number | undefined) => void;
  readonly onZoom: (span: Span) => void;
}

export interface Chart {
  /** Draws the traces that it was made with, in the same order. */
  readonly draw: (traces: readonly Trace[], span: Span, untilSeconds: number) => void;
  readonly canvas: HTMLCanvasElement;
  readonly end: () => void;
}

const FONT = "12px system-ui, sans-serif";
const LETTER = 7.2;

/** Width of the units beside an axis. */
const LABEL_SIZE = 18;

/** Width of an axis with these texts. */
export const axisSize = (texts: readonly string[]): number =>
  Math.ceil(16 + LETTER * Math.max(3, ...texts.map((text) => text.length)));

/** Axes take at most this part of the width; the list has the values of all traces. */
const AXES_PART = 0.42;
const AXIS_SPACE = 72;

/** uPlot's numbers, whose names exist for the compiler only. */
/* eslint-disable @typescript-eslint/no-unsafe-enum-assignment */
const LEFT: uPlot.Axis.Side = 3;
const RIGHT: uPlot.Axis.Side = 1;
const LOG: uPlot.Scale.Distr = 3;
/* eslint-enable @typescript-eslint/no-unsafe-enum-assignment */

const isMove = (type: string): boolean => /^mouse(?:move|leave)$/.test(type);

/** Charts share the cursor, and not the choice of an interval, which one of them reports. */
const SYNCED: NonNullable<uPlot.Cursor.Sync["filters"]> = { pub: isMove, sub: isMove };

/** For where ticks are: the local digits are those that are shown, but next to a change of the browser's zone. */
function tickDate(seconds: number, isUtc: boolean): Date {
  const at = new Date(1000 * seconds);
  return isUtc ? new Date(at.getTime() + 60_000 * at.getTimezoneOffset()) : at;
}

/** Times of ticks; the date is below the first one and below each that begins another day. */
export function timeTexts(ticks: readonly number[], step: number, isUtc: boolean): string[] {
  let before = "";
  return ticks.map((tick) => {
    const ms = Math.round(1000 * tick);
    const [date = "", clock = ""] = formatDate(ms, isUtc).split(" ");
    const below = date === before ? "" : `\n${date}`;
    before = date;
    if (step >= 86_400) return date;
    if (step >= 60) return clock.slice(0, 5) + below;
    const fraction = step < 1 ? `.${String(ms % 1000).padStart(3, "0")}` : "";
    return clock + fraction + below;
  });
}

function axisOf(host: HTMLElement): uPlot.Axis {
  const grid = { stroke: () => getComputedStyle(host).columnRuleColor, width: 1 };
  return { stroke: () => getComputedStyle(host).color, grid, ticks: grid, font: FONT };
}

/** The vertical axis of all traces with one scale. */
function verticalAxis(
  host: HTMLElement,
  traces: readonly Trace[],
  at: number,
  axisWidth: number | undefined,
): uPlot.Axis {
  const [first] = traces;
  const choices = first?.choices;
  const isOne = traces.length === 1;
  const textsOf = (ticks: readonly (number | null)[], step: number): string[] =>
    choices === undefined
      ? tickTexts(ticks, step)
      : ticks.map((tick) => (tick === null ? "" : (choices[tick] ?? "")));
  const plain = axisOf(host);
  return {
    ...plain,
    scale: first?.scale ?? "y",
    side: at % 2 === 0 ? LEFT : RIGHT,
    ...(at === 0 ? {} : { grid: { show: false } }),
    // An axis of one trace has its colour.
    ...(isOne && first !== undefined ? { stroke: () => first.colour } : {}),
    ...(first?.units === "" || first === undefined
      ? {}
      : { label: first.units, labelSize: LABEL_SIZE }),
    labelFont: FONT,
    values: (plot, ticks, _axis, _space, step) => {
      if (plot.scales[first?.scale ?? "y"]?.distr !== LOG) return textsOf(ticks, step);
      return ticks.map((tick: number | null) => (tick === null ? "" : logText(tick)));
    },
    size: (_plot, texts: readonly string[] | null) =>
      axisWidth === undefined
        ? axisSize(texts ?? [])
        : axisWidth - (first?.units === "" ? 0 : LABEL_SIZE),
    ...(choices === undefined ? {} : { incrs: [1, 2, 5, 10, 20, 50, 100] }),
  };
}

function scalesOf(traces: readonly Trace[], isLog: boolean): uPlot.Scales {
  const scales: uPlot.Scales = { x: { time: true } };
  for (const { choices, scale } of traces) {
    const shift = 0.25 * ((Object.keys(scales).length % 5) - 2);
    scales[scale] ??=
      isLog && choices === undefined
        ? { distr: LOG }
        : { range: (_plot, low: number | null, high: number | null) => padded(low, high, shift) };
  }
  return scales;
}

/** Lines at the limits of a trace, and a ground where its values are alarms. */
function drawLimits(plot: uPlot, { colour, limits, scale }: Trace, isAlone: boolean): void {
  const { ctx } = plot;
  const { height, left, top, width } = plot.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  for (const [range, dash] of [
    [limits.warning, [2, 4]],
    [limits.alarm, [10, 4]],
  ] as const) {
    for (const [limit, isUpper] of [
      [range?.min ?? null, false],
      [range?.max ?? null, true],
    ] as const) {
      if (limit === null) continue;
      const y = plot.valToPos(limit, scale, true);
      if (!Number.isFinite(y)) continue;
      if (isAlone) {
        ctx.globalAlpha = 0.1;
        ctx.fillStyle = colour;
        ctx.fillRect(left, isUpper ? top : y, width, isUpper ? y - top : top + height - y);
      }
      ctx.globalAlpha = 0.8;
      ctx.strokeStyle = colour;
      ctx.lineWidth = window.devicePixelRatio;
      ctx.setLineDash(dash.map((length) => length * window.devicePixelRatio));
      ctx.beginPath();
      ctx.moveTo(left, y);
      ctx.lineTo(left + width, y);
      ctx.stroke();
    }
  }
  ctx.restore();
}

/** The last time and date below the chart are whole: half of them is to the right of the curves, where no axis has room for it. */
function rightRoom({ scales }: uPlot, axes: number): number {
  if (axes > 1) return 16;
  const seconds = (scales.x?.max ?? 0) - (scales.x?.min ?? 0);
  // Times in parts of seconds, and dates.
  return seconds < 30 ? 46 : 38;
}

function optionsOf(
  host: HTMLElement,
  traces: readonly Trace[],
  options: ChartOptions,
  shown: () => readonly Trace[],
  paths: uPlot.Series.PathBuilder,
): uPlot.Options {
  const { hasLimits, isLog, isUtc, onCursor, onZoom, syncKey } = options;
  const scales = [...new Set(traces.map(({ scale }) => scale))];
  const axes = Math.max(1, Math.floor((AXES_PART * host.clientWidth) / AXIS_SPACE));
  return {
    width: Math.max(120, host.clientWidth),
    height: Math.max(80, host.clientHeight),
    legend: { show: false },
    padding: [10, (plot) => rightRoom(plot, Math.min(axes, scales.length)), 0, 0],
    tzDate: (seconds) => tickDate(seconds, isUtc),
    cursor: {
      drag: { x: true, y: false, setScale: false },
      sync: { key: syncKey, filters: SYNCED },
      points: { size: 7 },
    },
    scales: scalesOf(traces, isLog),
    axes: [
      {
        ...axisOf(host),
        space: 90,
        size: 42,
        values: (_plot, ticks, _axis, _space, step) => timeTexts(ticks, step, isUtc),
      },
      ...scales.slice(0, axes).map((scale, at) => {
        const own = traces.filter((trace) => trace.scale === scale);
        return verticalAxis(host, own, at, options.axisWidth);
      }),
    ],
    series: [
      {},
      ...traces.map(({ colour, dash, name, scale }) => ({
        label: name,
        scale,
        stroke: colour,
        dash: [...dash],
        width: 1.6,
        points: { show: false },
        paths,
        spanGaps: false,
      })),
    ],
    hooks: {
      drawClear: [
        (plot) => {
          if (!hasLimits) return;
          for (const trace of shown()) drawLimits(plot, trace, traces.length === 1);
        },
      ],
      setCursor: [
        (plot) => {
          const { left = -1 } = plot.cursor;
          onCursor(left < 0 ? undefined : plot.posToVal(left, "x"));
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 3) return;
          onZoom({ from: plot.posToVal(left, "x"), to: plot.posToVal(left + width, "x") });
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** A chart in `host`, which it fills. Other traces, units or options need another chart. */
export function createChart(
  UPlot: typeof uPlot,
  host: HTMLElement,
  traces: readonly Trace[],
  options: ChartOptions,
): Chart {
  let shown = traces;
  let draw = (): void => undefined;
  const plot = new UPlot(
    optionsOf(host, traces, options, () => shown, pathsOf(UPlot)),
    [[], ...traces.map(() => [])],
    host,
  );
  const resize = new ResizeObserver(() => {
    plot.setSize({
      width: Math.max(120, host.clientWidth),
      height: Math.max(80, host.clientHeight),
    });
    draw();
  });
  resize.observe(host);
  const isPositive = (number: number | null): boolean => number !== null && number > 0;
  return {
    canvas: plot.ctx.canvas,
    draw: (drawn, span, untilSeconds) => {
      shown = drawn;
      draw = () => {
        const columns = Math.max(50, Math.round(plot.bbox.width / window.devicePixelRatio));
        const curves = drawn.map(({ choices, history, knownTo = Infinity }) => {
          if (history === undefined) return [];
          const until = Math.min(untilSeconds, knownTo);
          const curve = curveOf(stepsOf(history), span, columns, until);
          if (!options.isLog || choices !== undefined) return curve;
          return curve.map((number) => (isPositive(number) ? number : null));
        });
        plot.batch(() => {
          plot.setData([gridOf(span, columns), ...curves], false);
          plot.setScale("x", { min: span.from, max: span.to });
        });
      };
      draw();
    },
    end: () => {
      resize.disconnect();
      plot.destroy();
    },
  };
}
