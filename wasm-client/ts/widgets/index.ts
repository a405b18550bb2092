/** pvwire/widgets: widgets for operators that show a PV in every state. */

"use client";

export { formatClock, formatCount, formatOneDigit, formatTimeStamp } from "./format.js";
export {
  CONDITION_FIELDS,
  noAccessText,
  useCondition,
  type Condition,
  type ConditionData,
} from "./condition.js";
export { ImageView, type ImageViewProps } from "./ImageView.js";
export { ByteMonitor, Led, type ByteMonitorProps, type LedProps } from "./Led.js";
export { Meter, type MeterProps } from "./Meter.js";
export type { ColourMap } from "./pixels.js";
export { Readback, type ReadbackProps } from "./Readback.js";
export { EnumChoice, SetPoint, type SetPointProps } from "./SetPoint.js";
export { StateIcon, type StateIconProps } from "./StateIcon.js";
export { StripChart, type StripChartProps } from "./StripChart.js";
export { TableView, type TableViewProps } from "./TableView.js";
export { WaveformPlot, type WaveformPlotProps } from "./WaveformPlot.js";
