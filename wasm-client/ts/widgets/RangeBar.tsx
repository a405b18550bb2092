/** A line that shows a number within its range, and where warnings and alarms begin. */

import { memo, type ReactNode, type Ref } from "react";
import type { PvDisplay, PvRange } from "../types.js";
import { limitsOf } from "./range.js";

export interface RangeBarProps {
  readonly display: Pick<PvDisplay, "displayRange" | "warningRange" | "alarmRange">;
  readonly number: number | null;
  /** The mark, for a widget that moves it itself. */
  readonly mark?: Ref<HTMLElement>;
}

/** A thin line below the value. Decorative: value and alarm are also shown as text. */
export function RangeBar({ display, mark, number }: RangeBarProps): ReactNode {
  const scale = scaleOf(display.displayRange);
  if (scale === undefined) {
    return null;
  }
  return (
    <span className="pvwire-gauge" aria-hidden="true">
      <Bands display={display} />
      {number !== null && Number.isFinite(number) && (
        <span
          ref={mark}
          className="pvwire-gauge-mark"
          style={{ backgroundPositionX: positionOf(scale, number) }}
        />
      )}
    </span>
  );
}

/** Moves the mark of a range bar as rendering it would. */
export function moveMark(mark: HTMLElement, { display, number }: RangeBarProps): void {
  const scale = scaleOf(display.displayRange);
  if (scale === undefined || number === null) return;
  mark.style.backgroundPositionX = positionOf(scale, number);
}

/** Unlike moving the element, moving its background needs no layout. */
const positionOf = (scale: (value: number) => number, number: number): string =>
  `${String(scale(number))}%`;

/** The ranges of warnings and alarms, which are known before the value is. */
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

/** The areas outside `range`, to the left and to the right. */
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

/**
 * Scales a value to 0 … 100; `undefined` if LOPR and HOPR are equal, as in records without display
 * limits.
 */
function scaleOf(range: PvRange | null): ((value: number) => number) | undefined {
  if (range?.min == null || range.max == null || range.max <= range.min) {
    return undefined;
  }
  const { min, max } = range;
  return (value) => Math.min(100, Math.max(0, (100 * (value - min)) / (max - min)));
}
