/** Which time the page Plots shows: the last seconds or hours, or an interval of the past. All of it is in the link. */

import { DEFAULT_LENGTH } from "../Lengths";
import { go, type Route } from "../route";
import type { Span } from "./steps";

export type TimeView =
  { readonly kind: "live"; readonly seconds: number } | ({ readonly kind: "past" } & Span);

const MIN_SECONDS = 0.1;
const MAX_SECONDS = 366 * 86_400;

const within = (seconds: number): number => Math.min(MAX_SECONDS, Math.max(MIN_SECONDS, seconds));

export function viewOf({ settings }: Route): TimeView {
  const [from, to] = [Number(settings.from), Number(settings.to)];
  if (from > 0 && to > from) return { kind: "past", from: from / 1000, to: to / 1000 };
  const last = Number(settings.last);
  return { kind: "live", seconds: last > 0 ? within(last) : DEFAULT_LENGTH };
}

export function spanOf(view: TimeView, nowMs: number): Span {
  return view.kind === "past" ? view : { from: nowMs / 1000 - view.seconds, to: nowMs / 1000 };
}

/** Shows an interval. Going back shows the one before. */
export function showSpan(route: Route, { from, to }: Span): void {
  const length = within(to - from);
  const middle = (from + to) / 2;
  const ends = [middle - length / 2, middle + length / 2].map((at) =>
    String(Math.round(1000 * at)),
  );
  const [begin = "", end = ""] = ends;
  go({ ...route, settings: { ...route.settings, from: begin, to: end } });
}

export function showLast(route: Route, seconds: number): void {
  const settings = { ...route.settings, from: "", to: "", last: String(seconds) };
  go({ ...route, settings });
}

/** An interval moved by a part of its length, and made longer or shorter about a time in it. */
export function moved({ from, to }: Span, by: number): Span {
  const shift = by * (to - from);
  return { from: from + shift, to: to + shift };
}

export function zoomed({ from, to }: Span, factor: number, about = (from + to) / 2): Span {
  return { from: about - factor * (about - from), to: about + factor * (to - about) };
}
