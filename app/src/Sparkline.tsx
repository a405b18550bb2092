/** The last ten minutes of a PV in a row of a table. */

import type { ReactNode } from "react";
import { usePvHistory } from "pvwire/react";

import { curveOf, gridOf, rangeOf, stepsOf } from "./plots/steps";

const SECONDS = 600;
const COLUMNS = 50;
const RANGE = { from: `-${String(SECONDS)}s`, points: 400 } as const;

const [WIDTH, HEIGHT] = [120, 20];

/** `nowMs` moves the curve. */
export default function Sparkline({
  name,
  nowMs,
}: {
  readonly name: string;
  readonly nowMs: number;
}): ReactNode {
  const [history] = usePvHistory([name], RANGE);
  if (history === undefined) return null;
  const now = nowMs / 1000;
  const span = { from: now - SECONDS, to: now };
  const steps = stepsOf(history);
  const [low, high] = rangeOf(steps, span) ?? [0, 0];
  const grid = gridOf(span, COLUMNS);
  let path = "";
  let isDrawn = false;
  curveOf(steps, span, COLUMNS, now).forEach((number, at) => {
    if (number === null) {
      isDrawn = false;
      return;
    }
    const x = (WIDTH * ((grid[at] ?? now) - span.from)) / SECONDS;
    // A value that doesn't change is a line in the middle.
    const y = high > low ? HEIGHT - 1 - ((HEIGHT - 2) * (number - low)) / (high - low) : HEIGHT / 2;
    path += `${isDrawn ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    isDrawn = true;
  });
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${String(WIDTH)} ${String(HEIGHT)}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${name}, last 10 minutes: ${String(low)} to ${String(high)}`}
    >
      <path d={path} fill="none" stroke="currentColor" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
