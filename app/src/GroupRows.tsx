/** The titles of groups in a table: folded or not, with the states of their PVs. Which are folded is in the link. */

import { useMemo, type ReactNode } from "react";
import { t } from "pvwire";

import { pvsText } from "./texts";
import { byPrefix, groupsIn, pvsIn, type Group } from "./groups";
import { kindText, KINDS } from "./pv_kind";
import type { Row } from "./pv_list";
import { go, setTo, type Route } from "./route";

/** The rows of a group. */
export interface RowGroup {
  /** Index of its first PV in the list. */
  readonly begin: number;
  /** Empty for rows before the first title. */
  readonly title: string;
  readonly isFolded: boolean;
  /** All of them: a filter hides no alarm from the title. */
  readonly all: readonly Row[];
  /** Those that pass the filters, in the table's order. */
  readonly rows: readonly Row[];
}

const foldedIn = ({ settings }: Route): readonly string[] =>
  (settings.folded ?? "").split("\n").filter(Boolean);

/** Folds these groups and no others. */
function fold(route: Route, titles: readonly string[]): void {
  setTo(route, { folded: titles.join("\n") });
}

export function useGroups(route: Route): readonly (Group & { readonly isFolded: boolean })[] {
  const { names } = route;
  const groups = useMemo(() => groupsIn(names), [names]);
  const folded = foldedIn(route);
  return groups.map((group) => ({ ...group, isFolded: folded.includes(group.title) }));
}

interface GroupToolsProps {
  readonly route: Route;
  readonly groups: readonly RowGroup[];
}

/** Makes groups by the names, and folds all of them. */
export function GroupTools({ groups, route }: GroupToolsProps): ReactNode {
  const titles = groups.map(({ title }) => title).filter(Boolean);
  const isFolded = groups.some((group) => group.isFolded);
  const regroup = (names: readonly string[]): void => {
    go({ ...route, names, settings: { ...route.settings, folded: "" } });
  };
  if (titles.length === 0) {
    return (
      <button
        type="button"
        title={t`A group for all PVs whose names are the same before the last colon`}
        onClick={() => {
          regroup(byPrefix(route.names));
        }}
      >
        {t`Group by prefix`}
      </button>
    );
  }
  return (
    <>
      <button
        type="button"
        onClick={() => {
          regroup([...new Set(pvsIn(route.names))]);
        }}
      >
        {t`No groups`}
      </button>
      <button
        type="button"
        onClick={() => {
          fold(route, isFolded ? [] : titles);
        }}
      >
        {isFolded ? t`Unfold all` : t`Fold all`}
      </button>
    </>
  );
}

interface GroupRowProps {
  readonly route: Route;
  readonly group: RowGroup;
  readonly index: number;
  /** Columns of the table. */
  readonly columns: number;
  /** That of all rows, in pixels. */
  readonly height: number;
}

export function GroupRow({ columns, group, height, index, route }: GroupRowProps): ReactNode {
  const { all, isFolded, rows, title } = group;
  const counts = KINDS.filter((kind) => kind !== "NO_ALARM")
    .map((kind) => ({ kind, count: all.filter((row) => row.kind === kind).length }))
    .filter(({ count }) => count > 0);
  const folded = foldedIn(route);

  return (
    <tr className="group-row" aria-rowindex={index} data-group={title}>
      <td colSpan={columns} style={{ height: `${String(height)}px` }}>
        <button
          type="button"
          aria-expanded={!isFolded}
          onClick={() => {
            fold(route, isFolded ? folded.filter((other) => other !== title) : [...folded, title]);
          }}
        >
          <span aria-hidden="true">{isFolded ? "▸" : "▾"}</span> {title}
        </button>
        <span className="note">
          {all.length === rows.length
            ? pvsText(all.length)
            : t`${rows.length} of ${pvsText(all.length)}`}
        </span>
        {counts.map(({ count, kind }) => (
          <span
            key={kind}
            className="group-count pvwire-state"
            data-severity={/^[A-Z]/.test(kind) ? kind : undefined}
          >
            {count} {kindText(kind)}
          </span>
        ))}
      </td>
    </tr>
  );
}
