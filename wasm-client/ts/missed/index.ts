/** pvwire/missed: the updates that a client has missed while it was cut off from its relay. */

export { watchMissed } from "./missed.js";
export type { MissedSnapshot, MissedWatch, PvAbsent, PvMissed } from "./types.js";
