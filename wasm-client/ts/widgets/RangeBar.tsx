/** A line that shows a number within its range, and where warnings and alarms begin. */

import { memo, type ReactNode, type Ref } from "react";
import type { PvDisplay, PvRange } from "../types.js";
import { limitsOf } from "./range.js";
import { positionIn, type Range } from "./scale.js";

type Ranges = Pick<PvDisplay, "displayRange" | "warningRange" | "alarmRange">;

export interface RangeBarProps {
  readonly display: Ranges;
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
  const isNumber = number !== null && !Number.isNaN(number);
  const beyond = isNumber ? beyondOf(scale, number) : undefined;
  return (
    <span
      className="pvwire-gauge"
      aria-hidden="true"
      data-in={isNumber ? bandOf(display, number) : undefined}
      data-beyond={beyond}
    >
      <Bands display={display} />
      {isNumber && (
        <span
          ref={mark}
          className="pvwire-gauge-mark"
          style={{ backgroundPositionX: percentOf(scale, number) }}
        />
      )}
    </span>
  );
}

/** Moves the mark of a range bar as rendering it would. */
export function moveMark(mark: HTMLElement, { display, number }: RangeBarProps): void {
  const scale = scaleOf(display.displayRange);
  if (scale === undefined || number === null || Number.isNaN(number)) return;
  // Unlike moving the element, moving its background needs no layout.
  mark.style.backgroundPositionX = percentOf(scale, number);
  const gauge = mark.parentElement?.dataset;
  if (gauge === undefined) return;
  setOrDelete(gauge, "in", bandOf(display, number));
  setOrDelete(gauge, "beyond", beyondOf(scale, number));
}

function setOrDelete(data: DOMStringMap, key: string, value: string | undefined): void {
  if (data[key] === value) return;
  if (value === undefined) Reflect.deleteProperty(data, key);
  else data[key] = value;
}

/** The end of the scale that a number is beyond. */
export function beyondOf([low, high]: Range, number: number): "low" | "high" | undefined {
  return number < low ? "low" : number > high ? "high" : undefined;
}

/** The range that a number is in: only this one may have the alarm's colour. */
function bandOf({ alarmRange, warningRange }: Ranges, number: number): string | undefined {
  for (const [kind, range] of [
    ["alarm", alarmRange],
    ["warning", warningRange],
  ] as const) {
    const { max, min } = limitsOf(range);
    // As in a record, a limit is part of its alarm.
    if (max < Infinity && number >= max) return `high-${kind}`;
    if (min > -Infinity && number <= min) return `low-${kind}`;
  }
  return undefined;
}

/** The ranges of warnings and alarms, which are known before the value is. */
const Bands = memo(function Bands({ display }: Pick<RangeBarProps, "display">) {
  const { alarmRange, displayRange, warningRange } = display;
  const scale = scaleOf(displayRange);
  if (scale === undefined) return null;
  return (
    <>
      <Band kind="warning" range={warningRange} scale={scale} />
      <Band kind="alarm" range={alarmRange} scale={scale} />
    </>
  );
});

interface BandProps {
  readonly kind: "warning" | "alarm";
  readonly range: PvRange | null;
  readonly scale: Range;
}

/** The areas outside `range`, to the left and to the right. */
function Band({ kind, range, scale }: BandProps) {
  const { max, min } = limitsOf(range);
  return (
    <>
      {min > -Infinity && (
        <span
          className={`pvwire-gauge-band pvwire-gauge-${kind}`}
          data-side="low"
          style={{ left: 0, width: percentOf(scale, min) }}
        />
      )}
      {max < Infinity && (
        <span
          className={`pvwire-gauge-band pvwire-gauge-${kind}`}
          data-side="high"
          style={{ right: 0, width: `calc(100% - ${percentOf(scale, max)})` }}
        />
      )}
    </>
  );
}

/** The position of a number from 0 % to 100 %. */
function percentOf(scale: Range, number: number): string {
  return `${String(100 * Math.min(1, Math.max(0, positionIn(scale, number))))}%`;
}

/** The ends of the scale; `undefined` if LOPR and HOPR are equal, as in records without display limits. */
function scaleOf(range: PvRange | null): Range | undefined {
  if (range?.min == null || range.max == null || !(range.max > range.min)) {
    return undefined;
  }
  return [range.min, range.max];
}
