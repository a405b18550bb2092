/** Moments as the relay reads and writes them. */

import type { Moment, PvTime } from "../types.js";

/** The text of a moment in a question. */
export function momentText(moment: Moment | undefined): string | undefined {
  if (typeof moment === "bigint") return String(moment);
  if (typeof moment === "number") return new Date(moment).toISOString();
  return moment instanceof Date ? moment.toISOString() : moment;
}

/** A time stamp in nanoseconds past 1970. */
export const timeOf = ({ nanoseconds, seconds }: Pick<PvTime, "seconds" | "nanoseconds">): bigint =>
  BigInt(Math.round(seconds - nanoseconds / 1e9)) * 1_000_000_000n + BigInt(nanoseconds);
