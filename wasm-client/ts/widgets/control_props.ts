/** What a set point knows of its PV, and what it hands to its control. */

import type { PvConnection, PvDisplay, PvStatus, PvTime, PvValue } from "../types.js";
import type { Entry } from "./entry.js";

/** What a set point selects of its PV. */
export interface SetPointData {
  readonly value: Pick<PvValue, "string" | "number"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly status: Pick<PvStatus, "severity" | "mutable" | "writable">;
  readonly display: Pick<
    PvDisplay,
    "type" | "description" | "units" | "precision" | "choices" | "controlRange"
  > | null;
  readonly connection: Pick<PvConnection, "state" | "connected" | "lastHeard" | "unresponsive">;
}

/** What every control is given. */
export interface ControlProps {
  readonly pv: SetPointData | undefined;
  readonly entry: Entry;
  /** Whether it can be written now. */
  readonly enabled: boolean;
  /** Ids of the elements that name and describe it. */
  readonly labelledBy: string;
  readonly describedBy: string;
  readonly allowNonFinite?: boolean | undefined;
}
