/** The range of a widget with a scale, and the scale itself. */

import type { CSSProperties, ReactNode } from "react";

import { ticksOf } from "../../widgets/ticks.js";
import { givenRange, positionIn, type Range } from "../../widgets/scale.js";
import type { Props } from "../model/props.js";
import { cssFont } from "../place.js";
import { cssColour } from "../model/palette.js";
import type { WidgetData } from "../use_widget_pv.js";

/** Whether limits are the PV's. A linear meter may take all of them from it (0), the ends (1), those of alarms (2) or none (3). */
function areOfPv(props: Props, number: "1" | "2"): boolean {
  const written = props.text("limits_from_pv").trim();
  return /^[0-3]$/.test(written)
    ? written === "0" || written === number
    : props.flag("limits_from_pv");
}

/** The ends of the scale: the PV's display limits, or those of the display; `undefined` without. */
export function rangeOf(
  props: Props,
  display: WidgetData["display"] | undefined,
  of: "displayRange" | "controlRange" = "displayRange",
): Range {
  const own: Range = [props.number("minimum"), props.number("maximum")];
  const limits = areOfPv(props, "1") ? display?.[of] : undefined;
  const { max = null, min = null } = limits ?? {};
  const isGiven = min !== null && max !== null && min < max;
  return givenRange(isGiven ? [min, max] : own) ?? [0, 100];
}

/** The position of a number on the scale, 0 to 1; `undefined` for no number. */
export function positionOn(
  range: Range,
  number: number | null | undefined,
  isLog = false,
): number | undefined {
  if (number == null || Number.isNaN(number)) return undefined;
  const position =
    isLog && range[0] > 0
      ? Math.log(Math.max(number, range[0]) / range[0]) / Math.log(range[1] / range[0])
      : positionIn(range, number);
  return Math.max(0, Math.min(1, position));
}

interface ScaleProps {
  readonly props: Props;
  readonly range: Range;
  readonly isAcross: boolean;
  /** Length in pixels. */
  readonly length: number;
  readonly isLog?: boolean;
}

/** A label this near to an end of the scale is beside its tick, not around it: it stays in the box. */
const END = 0.02;

/** Ticks with labels, beside a bar. */
export function Scale({ isAcross, isLog = false, length, props, range }: ScaleProps): ReactNode {
  const font = props.font();
  const room = isAcross ? font.size * 4 : font.size * 2;
  const ticks = ticksOf(range, Math.max(1, Math.floor(length / room)));
  const style: CSSProperties = {
    ...cssFont(font),
    color: cssColour(props.colour("foreground_color")),
  };
  return (
    <div
      className="pvwire-display-scale"
      data-across={isAcross || undefined}
      style={style}
      aria-hidden="true"
    >
      {ticks.at.map((tick, index) => {
        const position = positionOn(range, tick, isLog) ?? 0;
        const share = `${(100 * position).toFixed(3)}%`;
        const end = position < END ? "first" : position > 1 - END ? "last" : undefined;
        return (
          <span key={tick} data-end={end} style={isAcross ? { left: share } : { bottom: share }}>
            {ticks.labels[index]}
          </span>
        );
      })}
    </div>
  );
}

/** Limits on a scale that are marked, with the colour of each. */
export function levelsOf(
  props: Props,
  display: WidgetData["display"] | undefined,
  [low, high]: Range,
): readonly (readonly [number, "minor" | "major"])[] {
  const { alarmRange, warningRange } = display ?? {};
  const hasOwn = props.text("alarm_limits_from_pv") !== "";
  const fromPv = hasOwn ? props.flag("alarm_limits_from_pv") : areOfPv(props, "2");
  const own = (name: string): number => props.number(`level_${name}`, NaN);
  const all: readonly (readonly [number | null | undefined, "minor" | "major"])[] = fromPv
    ? [
        [alarmRange?.min, "major"],
        [warningRange?.min, "minor"],
        [warningRange?.max, "minor"],
        [alarmRange?.max, "major"],
      ]
    : [
        [own("lolo"), "major"],
        [own("low"), "minor"],
        [own("high"), "minor"],
        [own("hihi"), "major"],
      ];
  return all.flatMap(([at, kind]) =>
    at != null && at >= low && at <= high ? [[at, kind] as const] : [],
  );
}
