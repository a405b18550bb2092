/** A PV over the page's time as a line without axes, for a row of a table. */

import type { ReactNode } from "react";

import { usePvHistory } from "../react/index.js";
import { t } from "../texts.js";
import { nowSeconds, requestOf } from "./span.js";
import { curveOf, gridOf, rangeOf, stepsOf } from "./steps.js";
import { useSpan, useTimeRange } from "./time.js";

/** The properties of `Sparkline`. */
export interface SparklineProps {
  /** The PV: a number or a choice. */
  readonly name: string;
}

const COLUMNS = 50;
const POINTS = 400;
const EVERY_MS = 2000;

const [WIDTH, HEIGHT] = [120, 20];

/** The shape of a PV's past in the time of the nearest `TimeRangeProvider`. It fills the width of its cell. */
export function Sparkline({ name }: SparklineProps): ReactNode {
  const [range] = useTimeRange();
  const span = useSpan(range, EVERY_MS);
  const [history] = usePvHistory([name], requestOf(range, POINTS));
  if (history === undefined) return null;
  const steps = stepsOf(history);
  const [low, high] = rangeOf(steps, span) ?? [0, 0];
  const length = span.to - span.from;
  const grid = gridOf(span, COLUMNS);
  let path = "";
  let isDrawn = false;
  curveOf(steps, span, COLUMNS, nowSeconds()).forEach((number, at) => {
    if (number === null) {
      isDrawn = false;
      return;
    }
    const x = (WIDTH * ((grid[at] ?? span.to) - span.from)) / length;
    // A value that doesn't change is a line in the middle.
    const y = high > low ? HEIGHT - 1 - ((HEIGHT - 2) * (number - low)) / (high - low) : HEIGHT / 2;
    path += `${isDrawn ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    isDrawn = true;
  });
  return (
    <svg
      className="pvwire-sparkline"
      viewBox={`0 0 ${String(WIDTH)} ${String(HEIGHT)}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={path === "" ? t`${name}: no past` : t`${name}: ${String(low)} to ${String(high)}`}
    >
      <path d={path} fill="none" stroke="currentColor" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
