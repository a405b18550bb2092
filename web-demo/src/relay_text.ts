/** The state of the connection to the relay, in words. */

import type { ConnectionSnapshot } from "pvwire";

const STATE_TEXT = {
  connecting: "Connecting",
  open: "Relay connected",
  lost: "Relay lost",
  closed: "Connection closed",
} as const;

/** A relay that never answered isn't lost. */
export function relayText({ relayInstance, silentSinceMs, state }: ConnectionSnapshot): string {
  if (silentSinceMs !== undefined) return "No response";
  const isAway = state === "lost" || state === "closed";
  return isAway && relayInstance === undefined ? "Not connected to a relay" : STATE_TEXT[state];
}
