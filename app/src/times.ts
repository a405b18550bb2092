/** Times as text, in local time or UTC. */

import { useEffect, useState } from "react";
import { t, type PvTime } from "pvwire";
import { formatDate as dateText, type TimeRange } from "pvwire/plots";

export { formatDate as dateText, formatZone as zoneText } from "pvwire/plots";

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

/** `12 s`, `3 min`, `2 h`, `4 d`. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${String(seconds)} s`;
  if (seconds < 7200) return `${String(Math.round(seconds / 60))} min`;
  if (seconds < 172_800) return `${String(Math.round(seconds / 3600))} h`;
  return `${String(Math.round(seconds / 86_400))} d`;
}

/** `Last 10 min`, or how long a past interval is: `8 h until then`. */
export function spanText(range: TimeRange): string {
  const length = range.kind === "live" ? 1000 * range.seconds : range.toMs - range.fromMs;
  return range.kind === "live"
    ? t`Last ${lengthText(length)}`
    : t`${lengthText(length)} until then`;
}

/** `10 s`, `10 min`, `8 h`, `1 d`: in the largest unit of which it is one or more. */
function lengthText(ms: number): string {
  const [size, unit] = UNITS.find(([size]) => ms >= size) ?? UNITS[3];
  return `${String(Number((ms / size).toPrecision(3)))} ${unit}`;
}

const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
] as const;

/** Renders again at this interval; `undefined`: never. Returns the time of the last rendering. */
export function useClock(everyMs: number | undefined): number {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => {
      setNowMs(Date.now());
    }, everyMs);
    return () => {
      clearInterval(timer);
    };
  }, [everyMs]);
  return nowMs;
}
