/** Which time a page shows: the last seconds or hours, or an interval of the past. */

import type { UsePvHistoryOptions } from "../react/index.js";
import type { Span } from "./steps.js";

/** The last seconds until now. */
export interface LiveTime {
  /** Tells it from a past interval. */
  readonly kind: "live";
  /** Length of the time axis: 0.1 s to a year. */
  readonly seconds: number;
}

/** An interval of the past. One that ends later than now goes on live until its end. */
export interface PastTime {
  /** Tells it from the present. */
  readonly kind: "past";
  /** In milliseconds past 1970. */
  readonly fromMs: number;
  /** Later than `fromMs`. */
  readonly toMs: number;
}

/** Which time the plots and tables of a page show. */
export type TimeRange = LiveTime | PastTime;

/** What is shown unless a page or its user chooses another time. */
export const LAST_TEN_MINUTES: LiveTime = { kind: "live", seconds: 600 };

const MIN_SECONDS = 0.1;
const MAX_SECONDS = 366 * 86_400;

const within = (seconds: number): number => Math.min(MAX_SECONDS, Math.max(MIN_SECONDS, seconds));

/** The begin and end of a range at this time, in seconds. */
export function spanOf(range: TimeRange, nowMs: number): Span {
  if (range.kind === "past") return { from: range.fromMs / 1000, to: range.toMs / 1000 };
  return { from: nowMs / 1000 - within(range.seconds), to: nowMs / 1000 };
}

/** A span as a past interval that is neither too short nor too long. */
export function pastOf({ from, to }: Span): PastTime {
  const length = within(to - from);
  const middle = (from + to) / 2;
  const [fromMs, toMs] = [-0.5, 0.5].map((part) => Math.round(1000 * (middle + part * length)));
  return { kind: "past", fromMs: fromMs ?? 0, toMs: toMs ?? 0 };
}

/** An interval moved by a part of its length, and made longer or shorter about a time in it. */
export function moved({ from, to }: Span, by: number): Span {
  const shift = by * (to - from);
  return { from: from + shift, to: to + shift };
}

export function zoomed({ from, to }: Span, factor: number, about = (from + to) / 2): Span {
  return { from: about - factor * (about - from), to: about + factor * (to - about) };
}

/** The end of an interval that is over; `undefined` while the present is shown. In milliseconds past 1970. */
export function endOf(range: TimeRange): number | undefined {
  return range.kind === "past" && range.toMs <= Date.now() ? range.toMs : undefined;
}

export const nowSeconds = (): number => Date.now() / 1000;

/** A live past begins so much before the left edge, because clocks differ. */
const MARGIN_SECONDS = 10;

/** What is requested of the past for a range: another one only for another range. */
export function requestOf(range: TimeRange, points: number): UsePvHistoryOptions {
  if (range.kind === "live") {
    return { from: `-${String(Math.ceil(within(range.seconds)) + MARGIN_SECONDS)}s`, points };
  }
  return { from: range.fromMs, to: endOf(range), points };
}
