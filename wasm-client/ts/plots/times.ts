/** Dates and zones as text, in local time or UTC. */

import { t } from "../texts.js";

const two = (number: number): string => String(number).padStart(2, "0");

/** `2026-01-31 07:31:16`, of milliseconds past 1970. */
export function formatDate(ms: number, isUtc: boolean): string {
  // The methods of UTC, of a time that is shifted by the zone of the browser.
  const zoneMs = isUtc ? 0 : -60_000 * new Date(ms).getTimezoneOffset();
  const at = new Date(ms + zoneMs);
  const date = [String(at.getUTCFullYear()), two(at.getUTCMonth() + 1), two(at.getUTCDate())];
  const clock = [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()].map(two);
  return `${date.join("-")} ${clock.join(":")}`;
}

/** `UTC`, or `local time, UTC+1`. */
export function formatZone(isUtc: boolean): string {
  if (isUtc) return "UTC";
  const minutes = -new Date().getTimezoneOffset();
  const size = Math.abs(minutes);
  if (size === 0) return t`local time, UTC`;
  const rest = size % 60 === 0 ? "" : `:${two(size % 60)}`;
  const sign = minutes < 0 ? "−" : "+";
  return t`local time, UTC${sign}${Math.floor(size / 60)}${rest}`;
}

/** `2026-01-31 07:31:16.123`. */
export function timeText(seconds: number, isUtc: boolean): string {
  const ms = Math.floor(1000 * seconds);
  return `${formatDate(ms, isUtc)}.${String(ms % 1000).padStart(3, "0")}`;
}
