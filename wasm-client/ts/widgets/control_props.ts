/** The data that a set point selects, and the props of its controls. */

import type { PvConnection, PvDisplay, PvStatus, PvTime, PvValue } from "../types.js";
import type { Entry } from "./entry.js";

/** The fields that a set point selects. */
export interface SetPointData {
  readonly value: Pick<PvValue, "string" | "number" | "exact"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly status: Pick<PvStatus, "severity" | "mutable" | "writable">;
  readonly display: Pick<
    PvDisplay,
    | "type"
    | "elementCount"
    | "description"
    | "form"
    | "units"
    | "precision"
    | "choices"
    | "controlRange"
  > | null;
  readonly connection: Pick<PvConnection, "state" | "connected" | "lastHeard" | "unresponsive">;
}

/** The props of every control. */
export interface ControlProps {
  readonly pv: SetPointData | undefined;
  readonly entry: Entry;
  /** The labels of the PV's choices that have arrived last, which may not be shown yet. */
  readonly newestChoices: () => readonly string[];
  /** Whether it can be written now. */
  readonly enabled: boolean;
  /** Ids of the elements that name and describe it. */
  readonly labelledBy: string;
  readonly describedBy: string;
  readonly allowNonFinite?: boolean | undefined;
}
