/** pvwire/plots: PVs over time, live and past, with one time for a whole page. */

"use client";

export { csvText, download } from "./export.js";
export { HistoryPlot, type HistoryPlotProps } from "./HistoryPlot.js";
export type { LiveTime, PastTime, TimeRange } from "./span.js";
export { Sparkline, type SparklineProps } from "./Sparkline.js";
export {
  TimeRangeProvider,
  usePastEnd,
  useTimeRange,
  type TimeRangeProviderProps,
} from "./time.js";
export { TimeControl, type TimeControlProps } from "./TimeControl.js";
export { formatDate, formatZone } from "./times.js";
export type { PlotOptions } from "./Tools.js";
export { XyPlot, type XyPlotProps } from "./XyPlot.js";
export type { XyZoom } from "./xy_zoom.js";
