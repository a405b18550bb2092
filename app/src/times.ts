/** Times as text, in local time or UTC. */

import type { PvTime } from "pvwire";

const two = (number: number): string => String(number).padStart(2, "0");

/** `2026-01-31 07:31:16`. */
export function dateText(ms: number, isUtc: boolean): string {
  // The methods of UTC, of a time that is shifted by the zone of the browser.
  const zoneMs = isUtc ? 0 : -60_000 * new Date(ms).getTimezoneOffset();
  const at = new Date(ms + zoneMs);
  const date = [String(at.getUTCFullYear()), two(at.getUTCMonth() + 1), two(at.getUTCDate())];
  const clock = [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()].map(two);
  return `${date.join("-")} ${clock.join(":")}`;
}

/** With the digits of the IOC, as far as a person reads them. */
export function stampText(
  { nanoseconds, seconds }: Pick<PvTime, "seconds" | "nanoseconds">,
  isUtc: boolean,
): string {
  const whole = Math.round(seconds - nanoseconds / 1e9);
  const micro = String(Math.floor(nanoseconds / 1000)).padStart(6, "0");
  return `${dateText(1000 * whole, isUtc)}.${micro}`;
}

export const isoText = (iso: string, isUtc: boolean): string => dateText(Date.parse(iso), isUtc);

/** `UTC`, or `local time, UTC+1`. */
export function zoneText(isUtc: boolean): string {
  if (isUtc) return "UTC";
  const minutes = -new Date().getTimezoneOffset();
  const size = Math.abs(minutes);
  const rest = size % 60 === 0 ? "" : `:${two(size % 60)}`;
  const sign = minutes < 0 ? "−" : "+";
  return `local time, UTC${minutes === 0 ? "" : `${sign}${String(Math.floor(size / 60))}${rest}`}`;
}

/** `12 s`, `3 min`, `2 h`, `4 d`. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${String(seconds)} s`;
  if (seconds < 7200) return `${String(Math.round(seconds / 60))} min`;
  if (seconds < 172_800) return `${String(Math.round(seconds / 3600))} h`;
  return `${String(Math.round(seconds / 86_400))} d`;
}
