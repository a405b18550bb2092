/**
 * A slider. Each position is written; positions that arrive faster than they are written are
 * skipped.
 */

import type { ReactNode } from "react";

import { stepOf } from "./NumberControl.js";
import { limitsOf } from "./range.js";
import type { ControlProps } from "./control_props.js";

export function SliderControl({
  pv,
  entry,
  enabled,
  labelledBy,
  describedBy,
}: ControlProps): ReactNode {
  const { max, min } = limitsOf(pv?.display?.controlRange);
  const isLimited = Number.isFinite(max - min);
  const units = pv?.display?.units ?? "";
  const value = pv?.value?.string ?? "–";
  const shown = entry.text ?? String(pv?.value?.number ?? 0);
  return (
    <>
      <input
        className="pvwire-slider"
        type="range"
        aria-labelledby={labelledBy}
        aria-describedby={describedBy}
        aria-valuetext={`${shown} ${units}`}
        disabled={!enabled || !isLimited}
        min={isLimited ? min : 0}
        max={isLimited ? max : 1}
        step={
          pv?.display?.precision == null && pv?.display?.type.startsWith("Float")
            ? "any"
            : stepOf(pv)
        }
        value={shown}
        onChange={(event) => {
          const text = event.currentTarget.value;
          entry.slide(text, Number(text));
        }}
      />
      {/* What the PV has, not where the thumb is. */}
      <span className="pvwire-slider-value" data-part="value">
        {value}
        {units !== "" && <span className="pvwire-unit"> {units}</span>}
      </span>
    </>
  );
}
