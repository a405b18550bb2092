/**
 * A slider. Each position is written; positions that arrive faster than they are written are
 * skipped.
 */

import type { ReactNode } from "react";

import { rounded, stepOf } from "./NumberControl.js";
import { limitsOf } from "./range.js";
import type { ControlProps } from "./control_props.js";

export function SliderControl({
  pv,
  entry,
  enabled,
  labelledBy,
  describedBy,
}: ControlProps): ReactNode {
  const limits = limitsOf(pv?.display?.controlRange);
  const isLimited = Number.isFinite(limits.max - limits.min);
  const { max, min } = isLimited ? limits : { min: 0, max: 1 };
  const units = pv?.display?.units ?? "";
  const { number, string: value = "–" } = pv?.value ?? {};
  const shown = entry.text ?? number?.toString();
  const at = Number(shown);
  const isFine = pv?.display?.precision == null && pv?.display?.type.startsWith("Float");
  const step = isFine ? 0 : stepOf(pv);
  const move = (position: number, sign = 0): void => {
    const to = Math.max(min, Math.min(max, rounded(position)));
    // From outside the limits no arrow leads the other way.
    if (to !== at && sign * (to - at) >= 0) entry.slide(String(to), to);
  };
  return (
    <>
      <input
        className="pvwire-slider"
        type="range"
        aria-labelledby={labelledBy}
        aria-describedby={describedBy}
        aria-valuetext={`${shown ?? value} ${units}`}
        disabled={!enabled || !isLimited || shown === undefined}
        min={min}
        max={max}
        // The browser's own steps would show another number than the PV's.
        step="any"
        value={shown ?? min}
        onChange={(event) => {
          const to = Number(event.currentTarget.value);
          move(step === 0 ? to : min + Math.round((to - min) / step) * step);
        }}
        onKeyDown={(event) => {
          if (step === 0 || !event.key.startsWith("Arrow")) return;
          event.preventDefault();
          const sign = /Up|Right/.test(event.key) ? 1 : -1;
          move(at + sign * step, sign);
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
