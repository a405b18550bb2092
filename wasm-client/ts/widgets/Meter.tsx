/** A number on a scale of its range, with its warning and alarm ranges. */

import type { ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvDisplay, PvValue } from "../types.js";
import { t } from "../texts.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { Frame, kindOf, Nothing } from "./Frame.js";
import { beyondOf, RangeBar } from "./RangeBar.js";
import { endTexts } from "./end_texts.js";
import type { Range } from "./scale.js";

const SELECTION = `{
  value { string(units: true) number array structure text }
  display {
    description units
    displayRange { min max } warningRange { min max } alarmRange { min max }
  }
  ${CONDITION_FIELDS}
}`;

interface MeterData extends ConditionData {
  readonly value: Pick<PvValue, "string" | "number" | "array" | "structure" | "text"> | null;
  readonly display: Pick<
    PvDisplay,
    "description" | "units" | "displayRange" | "warningRange" | "alarmRange"
  > | null;
}

/** The properties of `Meter`. */
export interface MeterProps {
  /** The PV. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** Ends of the scale. @default the PV's display range */
  readonly min?: number;
  /** @default the PV's display range */
  readonly max?: number;
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/** A number on a linear scale. */
export function Meter({ name, label = name, min, max, staleAfterMs }: MeterProps): ReactNode {
  const pv = usePv<MeterData>(name, SELECTION);
  const condition = useCondition(pv, staleAfterMs, name);
  const value = pv?.value ?? null;
  const number = value?.number ?? null;
  const low = min ?? pv?.display?.displayRange?.min ?? null;
  const high = max ?? pv?.display?.displayRange?.max ?? null;
  const hasScale = isFinite(low) && isFinite(high) && low < high;
  const now = number ?? NaN;
  const text = pv?.value?.string ?? "–";
  const display = pv?.display;
  return (
    <Frame
      kind="meter"
      name={name}
      label={label}
      condition={condition}
      summary={text}
      description={display?.description}
    >
      {hasScale && display != null && value?.number !== null ? (
        <>
          <div
            className="pvwire-scale"
            role="meter"
            aria-label={label}
            aria-valuemin={low}
            aria-valuemax={high}
            aria-valuenow={Number.isNaN(now) ? low : Math.min(high, Math.max(low, now))}
            aria-valuetext={`${text}, ${condition.text}`}
          >
            <RangeBar
              display={{ ...display, displayRange: { min: low, max: high } }}
              number={number}
            />
          </div>
          <ScaleEnds range={[low, high]} units={display.units} number={now} />
        </>
      ) : (
        <Nothing
          why={
            value?.number === null
              ? t`A meter shows numbers; this is ${kindOf(value)}`
              : t`No display range`
          }
        />
      )}
    </Frame>
  );
}

interface ScaleEndsProps {
  readonly range: Range;
  readonly units: string;
  readonly number: number;
}

/** The numbers at the ends. An arrow shows that the value is beyond one of them. */
function ScaleEnds({ number, range, units }: ScaleEndsProps) {
  const [low, high] = endTexts(range);
  const beyond = beyondOf(range, number);
  return (
    <p className="pvwire-scale-ends" aria-hidden="true">
      <span>
        {beyond === "low" && "◂ "}
        {low}
      </span>
      <span>
        {high} {units}
        {beyond === "high" && " ▸"}
      </span>
    </p>
  );
}

const isFinite = (number: number | null): number is number => Number.isFinite(number);
