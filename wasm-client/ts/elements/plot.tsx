/** The widget of `<pv-plot>`, which is loaded with the first of them. */

import type { ReactNode } from "react";

import { usePv } from "../react/pv.js";
import widget from "../widgets/css/widget.css?inline";
import { StripChart, type StripChartProps } from "../widgets/StripChart.js";
import { WaveformPlot } from "../widgets/WaveformPlot.js";
import { given, type Attributes } from "./pv_element.js";
import { addStyles } from "./style_sheet.js";

addStyles({ plot: widget });

/** A curve. */
export function plotWidget(attributes: Attributes): ReactNode {
  const [low, high] = [attributes.number("y-min"), attributes.number("y-max")];
  const options = given({
    windowSeconds: attributes.number("window-seconds"),
    height: attributes.number("height"),
    yRange: low === undefined || high === undefined ? undefined : ([low, high] as const),
    staleAfterMs: attributes.number("stale-after-ms"),
  });
  return <Plot {...attributes.pv} {...options} />;
}

/** A number over time, or an array over its index: the plot that fits the PV's value. */
function Plot(props: StripChartProps): ReactNode {
  const pv = usePv(props.name, "{ value { array } display { elementCount } }");
  // Without a value, by the number of elements that the PV may have.
  const isArray =
    pv?.value == null ? (pv?.display?.elementCount ?? 1) > 1 : pv.value.array !== null;
  return isArray ? <WaveformPlot {...props} /> : <StripChart {...props} />;
}
