/** The time that the plots and tables of a page show. It is in the link, and going back shows the one before. */

import type { TimeRange } from "pvwire/plots";

import { DEFAULT_LENGTH } from "./Lengths";
import { go, parseRoute, type Route } from "./route";

export function timeOf({ settings }: Pick<Route, "settings">): TimeRange {
  const [fromMs, toMs] = [Number(settings.from), Number(settings.to)];
  if (fromMs > 0 && toMs > fromMs) return { kind: "past", fromMs, toMs };
  const seconds = Number(settings.last);
  return { kind: "live", seconds: seconds > 0 ? seconds : DEFAULT_LENGTH };
}

export function showTime(range: TimeRange): void {
  // The page and its settings may have changed since it was rendered.
  const route = parseRoute(window.location.hash);
  const time =
    range.kind === "past"
      ? { from: String(range.fromMs), to: String(range.toMs) }
      : { from: "", to: "", last: String(range.seconds) };
  go({ ...route, settings: { ...route.settings, ...time } });
}
