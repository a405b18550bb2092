/** The columns of the table that a person chooses; the link has them. */

import { useEffect, type ReactNode } from "react";
import { t, type PvDisplay, type PvStatus } from "pvwire";
import { useClient } from "pvwire/react";

import { setTo, type Route } from "./route";

/** All but the name and the value, in their order. */
export const CHOICES = ["state", "time", "description", "type", "access"] as const;
export type Choice = (typeof CHOICES)[number];

export const COLUMNS = ["name", "value", ...CHOICES] as const;
export type Column = (typeof COLUMNS)[number];

/** Whether a column is about the PV, and not about its value. */
export const isExtra = (column: Column): boolean => CHOICES.indexOf(column as Choice) > 1;

/** The titles of columns. */
export const columnTitle = (column: Column): string =>
  ({
    name: t`PV`,
    value: t`Value`,
    state: t`State`,
    time: t`Time`,
    description: t`Description`,
    type: t`Type`,
    access: t`Access`,
  })[column];

const DEFAULT = "state+time";

/** Stands for no column: an empty setting is the default. */
const NONE = "none";

export function choicesOf({ settings }: Pick<Route, "settings">): readonly Choice[] {
  const { columns = "" } = settings;
  const chosen = (columns === "" ? DEFAULT : columns).split("+");
  return CHOICES.filter((id) => chosen.includes(id));
}

/** What the further columns show, of a PV now. */
export interface About {
  readonly display: Pick<PvDisplay, "description" | "type"> | null;
  readonly status: Pick<PvStatus, "mutable" | "writable">;
}

const DESCRIPTION = "{ display { description } }";

/** Reads the descriptions of all PVs while their column is shown, so that rows are sorted and found by them. */
export function useDescriptions(names: readonly string[], isShown: boolean): void {
  const client = useClient();
  useEffect(() => {
    const read = isShown ? names.map((name) => client.pv(name, DESCRIPTION)) : [];
    const ends = read.map((pv) => pv.subscribe(() => undefined));
    return () => {
      for (const end of ends) end();
    };
  }, [client, names, isShown]);
}

/** The text of a column that isn't one of its value. */
export function aboutText(choice: Column, about: About | undefined): string {
  const { display, status } = about ?? {};
  switch (choice) {
    case "description":
      return display?.description ?? "";
    case "type":
      return display?.type ?? "";
    case "access":
      if (display == null || status === undefined) return "";
      if (status.writable === true) return t`read, write`;
      return status.writable === false ? t`read` : t`read, perhaps write`;
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
      <summary>{t`Columns`}</summary>
      <div className="choices" role="group" aria-label={t`Columns`}>
        {CHOICES.map((id) => (
          <label key={id} className="pair">
            <input
              type="checkbox"
              checked={chosen.includes(id)}
              onChange={({ target }) => {
                const next = CHOICES.filter((each) =>
                  each === id ? target.checked : chosen.includes(each),
                );
                const columns = next.length === 0 ? NONE : next.join("+");
                setTo(route, { columns: columns === DEFAULT ? "" : columns });
              }}
            />
            {columnTitle(id)}
          </label>
        ))}
      </div>
    </details>
  );
}
