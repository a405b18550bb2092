/** How a PV of a list is: its alarm, or why it has none. */

import { t, type PvConnection, type PvStatus } from "pvwire";

/** How a PV is, the worst first. */
export const KINDS = ["MAJOR", "INVALID", "gone", "MINOR", "searched", "NO_ALARM"] as const;
export type Kind = (typeof KINDS)[number];

export const kindText = (kind: Kind): string =>
  ({
    MAJOR: t`major alarm`,
    INVALID: t`invalid`,
    gone: t`not connected or not readable`,
    MINOR: t`minor alarm`,
    searched: t`searched`,
    NO_ALARM: t`no alarm`,
  })[kind];

export interface StateData {
  readonly status: Pick<PvStatus, "severity">;
  readonly connection: Pick<PvConnection, "state" | "unresponsive" | "readable">;
}

/** `hasValue` is called only for a PV without an alarm: some servers give no alarm, and no PV has one before its value. */
export function kindOf(pv: StateData | undefined, hasValue: () => boolean): Kind {
  if (pv === undefined || pv.connection.state === "connecting") return "searched";
  const { readable, state, unresponsive } = pv.connection;
  if (state !== "connected" || unresponsive || !readable) return "gone";
  return pv.status.severity ?? (hasValue() ? "NO_ALARM" : "gone");
}
