/** The time that the plots and tables of a page show, and its choice. It is in the link, and going back shows the one before. */

import type { ReactNode } from "react";
import type { TimeRange } from "pvwire/plots";

import { go, parseRoute, type Route } from "./route";

const LENGTHS = [
  ["10 s", 10],
  ["1 min", 60],
  ["10 min", 600],
  ["1 h", 3600],
  ["8 h", 28_800],
  ["1 d", 86_400],
] as const;

/** In seconds. */
const DEFAULT_LENGTH = 600;

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

interface LengthsProps {
  readonly label: string;
  /** In seconds; `undefined` if none is chosen. */
  readonly chosen: number | undefined;
  readonly choose: (seconds: number) => void;
}

/** Chooses the length of a time axis. */
export function Lengths({ choose, chosen, label }: LengthsProps): ReactNode {
  return (
    <div className="choices" role="group" aria-label={label}>
      {LENGTHS.map(([title, seconds]) => (
        <button
          key={title}
          type="button"
          aria-pressed={seconds === chosen}
          onClick={() => {
            choose(seconds);
          }}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
