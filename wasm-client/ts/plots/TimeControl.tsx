/** Chooses the time of all plots of a page: live with its length, or an interval of the past. */

import { useState, type ReactNode } from "react";

import { t } from "../texts.js";
import { moved, pastOf, spanOf, zoomed } from "./span.js";
import type { Span } from "./steps.js";
import { useTimeRange } from "./time.js";
import { formatDate, formatZone } from "./times.js";

/** The properties of `TimeControl`. */
export interface TimeControlProps {
  /** Times in UTC. @default false, for the user's time zone */
  readonly isUtc?: boolean;
}

const LENGTHS = [
  ["10 s", 10],
  ["1 min", 60],
  ["10 min", 600],
  ["1 h", 3600],
  ["8 h", 28_800],
  ["1 d", 86_400],
] as const;

const moves = (): readonly (readonly [title: string, change: (span: Span) => Span])[] => [
  [t`◀ Earlier`, (span) => moved(span, -0.5)],
  [t`Later ▶`, (span) => moved(span, 0.5)],
  [t`Zoom in`, (span) => zoomed(span, 0.5)],
  [t`Zoom out`, (span) => zoomed(span, 2)],
];

/** Of `moves`: a live plot has nothing later. */
const LATER = 1;

/** Buttons and inputs for the time of the nearest `TimeRangeProvider`: put it once on a page. */
export function TimeControl({ isUtc = false }: TimeControlProps): ReactNode {
  const [range, setRange] = useTimeRange();
  const isLive = range.kind === "live";
  // Digits that are typed in one zone mean another time in the other.
  const zone = formatZone(isUtc);
  return (
    <div className="pvwire-time-control" data-time={range.kind}>
      <div className="pvwire-buttons" role="group" aria-label={t`Live, with the last`}>
        {LENGTHS.map(([title, seconds]) => (
          <button
            key={title}
            type="button"
            aria-pressed={isLive && seconds === range.seconds}
            onClick={() => {
              setRange({ kind: "live", seconds });
            }}
          >
            {title}
          </button>
        ))}
      </div>
      <div className="pvwire-buttons" role="group" aria-label={t`Move and zoom`}>
        {moves().map(([title, change], at) => (
          <button
            key={title}
            type="button"
            disabled={isLive && at === LATER}
            onClick={() => {
              setRange(pastOf(change(spanOf(range, Date.now()))));
            }}
          >
            {title}
          </button>
        ))}
      </div>
      <Interval key={`${isLive ? "" : JSON.stringify(range)} ${zone}`} isUtc={isUtc} />
    </div>
  );
}

/** `2026-01-31T07:31:16`, as an input has it. */
const inputText = (ms: number, isUtc: boolean): string => formatDate(ms, isUtc).replace(" ", "T");

function Interval({ isUtc }: { readonly isUtc: boolean }) {
  const [range, setRange] = useTimeRange();
  const isPast = range.kind === "past";
  const [from, setFrom] = useState(isPast ? inputText(range.fromMs, isUtc) : "");
  const [to, setTo] = useState(isPast ? inputText(range.toMs, isUtc) : "");
  const msOf = (text: string): number => Date.parse(isUtc ? `${text}Z` : text);
  const [fromMs, toMs] = [msOf(from), msOf(to)];
  const isWhole = toMs > fromMs;
  const zone = formatZone(isUtc);
  return (
    <form
      className="pvwire-buttons"
      onSubmit={(event) => {
        event.preventDefault();
        if (isWhole) setRange(pastOf({ from: fromMs / 1000, to: toMs / 1000 }));
      }}
    >
      {(
        [
          [t`From`, from, setFrom],
          [t`To`, to, setTo],
        ] as const
      ).map(([title, text, set]) => (
        <label key={title} className="pvwire-pair">
          {title}
          <input
            type="datetime-local"
            step="1"
            aria-label={`${title}, ${zone}`}
            value={text}
            onChange={({ target }) => {
              set(target.value);
            }}
          />
        </label>
      ))}
      <button type="submit" disabled={!isWhole}>
        {t`Show`}
      </button>
      <span className="pvwire-note">{zone}</span>
    </form>
  );
}
