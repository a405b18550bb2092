/** The limits of a PV's range. Records without limits have 0 to 0. */

import type { PvRange } from "../types.js";
import { t } from "../texts.js";

export interface Limits {
  /** `-Infinity` if there is no lower limit. */
  readonly min: number;
  /** `Infinity` if there is no upper limit. */
  readonly max: number;
}

/** A record clamps only if its upper limit is above the lower one; other pairs do not limit. */
export function limitsOf(range: PvRange | null | undefined): Limits {
  const { max, min } = { min: range?.min ?? -Infinity, max: range?.max ?? Infinity };
  return min < max ? { min, max } : { min: -Infinity, max: Infinity };
}

/** `0 to 3 MV`, `at least 0 MV`; empty without limits. */
export function limitsText({ max, min }: Limits, units: string): string {
  const unit = units === "" ? "" : ` ${units}`;
  if (min === -Infinity) return max === Infinity ? "" : t`at most ${String(max)}${unit}`;
  return max === Infinity
    ? t`at least ${String(min)}${unit}`
    : t`${String(min)} to ${String(max)}${unit}`;
}
