/** The time that all charts show: live with its length, or an interval of the past. */

import { useState, type ReactNode } from "react";

import { Lengths } from "../Lengths";
import type { Route } from "../route";
import { dateText, zoneText } from "../times";
import { moved, showLast, showSpan, spanOf, zoomed, type TimeView } from "./span";

interface TimeControlProps {
  readonly route: Route;
  readonly view: TimeView;
}

export function TimeControl({ route, view }: TimeControlProps): ReactNode {
  const change = (next: "earlier" | "later" | "in" | "out") => (): void => {
    const span = spanOf(view, Date.now());
    if (next === "earlier") showSpan(route, moved(span, -0.5));
    else if (next === "later") showSpan(route, moved(span, 0.5));
    else showSpan(route, zoomed(span, next === "in" ? 0.5 : 2));
  };
  // Digits that are typed in one zone mean another time in the other.
  const zone = zoneText(route.settings.utc === "1");
  const live = view.kind === "live" ? view.seconds : undefined;
  return (
    <div className="time-control">
      <Lengths
        label="Live, with the last"
        chosen={live}
        choose={(seconds) => {
          showLast(route, seconds);
        }}
      />
      <div className="choices" role="group" aria-label="Move and zoom">
        <button type="button" onClick={change("earlier")}>
          ◀ Earlier
        </button>
        <button type="button" onClick={change("later")} disabled={view.kind === "live"}>
          Later ▶
        </button>
        <button type="button" onClick={change("in")}>
          Zoom in
        </button>
        <button type="button" onClick={change("out")}>
          Zoom out
        </button>
      </div>
      <Interval
        key={`${view.kind === "past" ? `${String(view.from)} ${String(view.to)}` : ""} ${zone}`}
        route={route}
        view={view}
      />
    </div>
  );
}

/** `2026-01-31T07:31:16`, as an input has it. */
const inputText = (seconds: number, isUtc: boolean): string =>
  dateText(1000 * seconds, isUtc).replace(" ", "T");

function Interval({ route, view }: TimeControlProps) {
  const isUtc = route.settings.utc === "1";
  const isPast = view.kind === "past";
  const [from, setFrom] = useState(isPast ? inputText(view.from, isUtc) : "");
  const [to, setTo] = useState(isPast ? inputText(view.to, isUtc) : "");
  const [begin, end] = [from, to].map((text) => Date.parse(isUtc ? `${text}Z` : text) / 1000);
  const isWhole = begin !== undefined && end !== undefined && end > begin;
  return (
    <form
      className="choices interval"
      onSubmit={(event) => {
        event.preventDefault();
        if (isWhole) showSpan(route, { from: begin, to: end });
      }}
    >
      {(
        [
          ["From", from, setFrom],
          ["To", to, setTo],
        ] as const
      ).map(([title, text, set]) => (
        <label key={title} className="pair">
          {title}
          <input
            type="datetime-local"
            step="1"
            aria-label={`${title}, ${zoneText(isUtc)}`}
            value={text}
            onChange={({ target }) => {
              set(target.value);
            }}
          />
        </label>
      ))}
      <button type="submit" disabled={!isWhole}>
        Show
      </button>
      <span className="note">{zoneText(isUtc)}</span>
    </form>
  );
}
