/** Whether a PV can be written, for the widgets that write. */

import type { PvConnection, PvStatus } from "../types.js";
import { t } from "../texts.js";
import { noAccessText } from "./condition.js";

/** What decides whether a PV can be written. */
interface WritableData {
  readonly status: Pick<PvStatus, "mutable" | "writable">;
  readonly connection: Pick<PvConnection, "state">;
}

/** Why the PV can't be written, if so. */
export function whyNotWritable(name: string, pv: WritableData | undefined): string | undefined {
  if (pv === undefined) {
    return t`Connecting…`;
  }
  switch (pv.connection.state) {
    case "connecting":
      return t`Connecting…`;
    case "notFound":
      return t`Not found: nothing can be sent`;
    case "disconnected":
      return t`Disconnected: nothing can be sent`;
    case "relayLost":
      return t`Relay lost: nothing can be sent`;
    case "refused":
      return t`The relay doesn't take the name`;
    case "connected":
      if (!pv.status.mutable) return noAccessText(name);
      return pv.status.writable === false ? t`Writing is not allowed by the relay` : undefined;
  }
}
