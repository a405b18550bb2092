/** The columns of the table that a person chooses; the link has them. */

import type { ReactNode } from "react";
import type { PvDisplay, PvStatus } from "pvwire";

import { setTo, type Route } from "./route";

/** All but the name and the value, in their order. */
export const CHOICES = [
  ["state", "State"],
  ["time", "Time"],
  ["description", "Description"],
  ["type", "Type"],
  ["access", "Access"],
] as const;
export type Choice = (typeof CHOICES)[number][0];

const DEFAULT = "state+time";

/** Stands for no column: an empty setting is the default. */
const NONE = "none";

export function choicesOf({ settings }: Pick<Route, "settings">): readonly Choice[] {
  const { columns = "" } = settings;
  const chosen = (columns === "" ? DEFAULT : columns).split("+");
  return CHOICES.map(([id]) => id).filter((id) => chosen.includes(id));
}

/** What the further columns show, of a PV now. */
export interface About {
  readonly display: Pick<PvDisplay, "description" | "type"> | null;
  readonly status: Pick<PvStatus, "mutable" | "writable">;
}

/** The text of a column that isn't one of its value. */
export function aboutText(choice: Choice, about: About | undefined): string {
  const { display, status } = about ?? {};
  switch (choice) {
    case "description":
      return display?.description ?? "";
    case "type":
      return display?.type ?? "";
    case "access":
      if (display == null || status === undefined) return "";
      if (status.writable === true) return "read, write";
      return status.writable === false ? "read" : "read, perhaps write";
    default:
      return "";
  }
}

/** Numbers, then NaN, then texts: a comparison with NaN would leave all others in no order. */
const rankOf = (key: string | number): number =>
  typeof key === "string" ? 2 : Number.isNaN(key) ? 1 : 0;

/** The order of two values of a column. */
export function compare(one: string | number, other: string | number): number {
  const rank = rankOf(one) - rankOf(other);
  if (rank !== 0 || one === other) return rank;
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Chooses columns. */
export function ColumnChoice({ route }: { readonly route: Route }): ReactNode {
  const chosen = choicesOf(route);
  return (
    <details className="column-choice">
      <summary>Columns</summary>
      <div className="choices" role="group" aria-label="Columns">
        {CHOICES.map(([id, title]) => (
          <label key={id} className="pair">
            <input
              type="checkbox"
              checked={chosen.includes(id)}
              onChange={({ target }) => {
                const next = CHOICES.map(([each]) => each).filter((each) =>
                  each === id ? target.checked : chosen.includes(each),
                );
                const columns = next.length === 0 ? NONE : next.join("+");
                setTo(route, { columns: columns === DEFAULT ? "" : columns });
              }}
            />
            {title}
          </label>
        ))}
      </div>
    </details>
  );
}
