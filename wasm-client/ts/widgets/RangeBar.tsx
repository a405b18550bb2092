/** A line that shows a number within its range, and where warnings and alarms begin. */

import { memo, type ReactNode } from "react";
import type { PvDisplay, PvRange } from "../types.js";
import { limitsOf } from "./range.js";

export interface RangeBarProps {
  readonly display: Pick<PvDisplay, "displayRange" | "warningRange" | "alarmRange">;
  readonly number: number | null;
}

/** A thin line below the value. Decoration: value and alarm are also there as text. */
export function RangeBar({ display, number }: RangeBarProps): ReactNode {
  const scale = scaleOf(display.displayRange);
  if (scale === undefined) {
    return null;
  }
  return (
    <span className="pvwire-gauge" aria-hidden="true">
      <Bands display={display} />
      {number !== null && Number.isFinite(number) && (
        <span
          className="pvwire-gauge-mark"
          // Unlike its place, a new background needs no layout.
          style={{ backgroundPositionX: `${String(scale(number))}%` }}
        />
      )}
    </span>
  );
}

/** Where warnings and alarms begin, which is known before the value is. */
const Bands = memo(function Bands({ display }: Pick<RangeBarProps, "display">) {
  const { alarmRange, displayRange, warningRange } = display;
  const percent = scaleOf(displayRange);
  if (percent === undefined) return null;
  return (
    <>
      <Band kind="warning" range={warningRange} percent={percent} />
      <Band kind="alarm" range={alarmRange} percent={percent} />
    </>
  );
});

interface BandProps {
  readonly kind: "warning" | "alarm";
  readonly range: PvRange | null;
  readonly percent: (value: number) => number;
}

/** What lies outside `range`, to the left and to the right. */
function Band({ kind, range, percent }: BandProps) {
  const { max, min } = limitsOf(range);
  return (
    <>
      {min > -Infinity && (
        <span
          className={`pvwire-gauge-band pvwire-gauge-${kind}`}
          style={{ left: 0, width: `${String(percent(min))}%` }}
        />
      )}
      {max < Infinity && (
        <span
          className={`pvwire-gauge-band pvwire-gauge-${kind}`}
          style={{ left: `${String(percent(max))}%`, right: 0 }}
        />
      )}
    </>
  );
}

/** From a value to 0 … 100; nothing where LOPR and HOPR span no range, as with records that have none. */
function scaleOf(range: PvRange | null): ((value: number) => number) | undefined {
  if (range?.min == null || range.max == null || range.max <= range.min) {
    return undefined;
  }
  const { min, max } = range;
  return (value) => Math.min(100, Math.max(0, (100 * (value - min)) / (max - min)));
}
