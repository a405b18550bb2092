/** Any list of PVs as a table. Only the rows on the screen are in the page. */

import { memo, useEffect, useRef, useState, type ReactNode } from "react";
import { usePv } from "pvwire/react";
import { SetPoint, StateIcon, useCondition } from "pvwire/widgets";

import { useClock } from "./clock";
import { pvsText } from "./counts";
import { csvOf, download } from "./csv";
import { filterOf, Filters, passes, type Filter } from "./Filters";
import { ListBox } from "./ListBox";
import { compare } from "./order";
import { KINDS } from "./pv_kind";
import { ROW, usePvList, type Row, type RowData } from "./pv_list";
import { elsewhere, go, hrefOf, setTo, type Route } from "./route";
import Sparkline from "./Sparkline";
import { lastList, rememberList } from "./stored";
import { stampText, zoneText } from "./times";
import { moodOfList, useTitle } from "./title";
import { Space, useVisibleRows } from "./visible_rows";

const COLUMNS = [
  ["name", "PV"],
  ["value", "Value"],
  ["state", "State"],
  ["time", "Time"],
] as const;
type Column = (typeof COLUMNS)[number][0];

/** Values and times change: rows that are sorted by them are put in order this often. */
const SORT_EVERY_MS = 1000;

/** Curves of the rows move this often. */
const CURVES_EVERY_MS = 2000;

/** The list of the link; without one, that of the last visit, which then is in the link. */
export function useNames(route: Route): readonly string[] {
  const { names } = route;
  useEffect(() => {
    if (names.length > 0) rememberList(names);
    else if (lastList().length > 0) go({ ...route, names: lastList() }, { replace: true });
  }, [names, route]);
  return names;
}

export default function TablePage({ route }: { readonly route: Route }): ReactNode {
  const names = useNames(route);
  const list = usePvList(names);
  const [column, isUp] = sortOf(route);
  const filter = filterOf(route);
  const isUtc = route.settings.utc === "1";
  useClock(column === "value" || column === "time" ? SORT_EVERY_MS : undefined);
  const rows = sorted(list.rows, filter, column, isUp);
  useTitle(`Table of ${pvsText(names.length)}`, moodOfList(KINDS, list.counts));
  return (
    <div className="table-page">
      <h1>Table</h1>
      <ListBox key={names.join()} route={route} names={names} />
      {names.length > 0 && (
        <section className="panel table-panel" aria-label="PVs">
          <Filters route={route} list={list} kinds={KINDS}>
            <button
              type="button"
              aria-pressed={route.settings.curves === "1"}
              title="The last ten minutes of each PV on the screen"
              onClick={() => {
                setTo(route, { curves: route.settings.curves === "1" ? "" : "1" });
              }}
            >
              Curves
            </button>
            <button
              type="button"
              onClick={() => {
                download("pvs.csv", csvOf(rows, isUtc));
              }}
            >
              Export CSV
            </button>
            <span className="note" role="status">
              {rows.length} of {pvsText(names.length)} · times in {zoneText(isUtc)}
            </span>
          </Filters>
          <Rows route={route} rows={rows} isUtc={isUtc} />
        </section>
      )}
    </div>
  );
}

function sortOf({ settings }: Route): readonly [Column | "", boolean] {
  const [, sign, name] = /^(-?)(.*)$/.exec(settings.sort ?? "") ?? [];
  const column = COLUMNS.find(([column]) => column === name)?.[0] ?? "";
  return [column, sign !== "-"];
}

function keyOf(row: Row, column: Column | ""): string | number {
  switch (column) {
    case "name":
      return row.name;
    case "state":
      return KINDS.indexOf(row.kind);
    case "value": {
      const value = row.read()?.value;
      return value?.number ?? value?.string ?? "";
    }
    case "time":
      return row.read()?.time?.seconds ?? 0;
    default:
      return row.at;
  }
}

/** Where two are equal, in the order of the list. */
function sorted(rows: readonly Row[], filter: Filter, column: Column | "", isUp: boolean): Row[] {
  const keyed = rows
    .filter((row) => passes(filter, row))
    .map((row) => [keyOf(row, column), row] as const);
  const sign = isUp ? 1 : -1;
  keyed.sort(([a, one], [b, other]) => sign * compare(a, b) || one.at - other.at);
  return keyed.map(([, row]) => row);
}

interface RowsProps {
  readonly route: Route;
  readonly rows: readonly Row[];
  readonly isUtc: boolean;
}

function Rows({ isUtc, route, rows }: RowsProps) {
  const room = useRef<HTMLDivElement>(null);
  const { count, first, height } = useVisibleRows(room, rows.length);
  const shown = rows.slice(first, first + count);
  const hasCurves = route.settings.curves === "1";
  const nowMs = useClock(hasCurves ? CURVES_EVERY_MS : undefined);
  const [written, setWritten] = useState<string>();
  const [column, isUp] = sortOf(route);
  return (
    <div ref={room} className="table-room" role="region" aria-label="Rows" tabIndex={0}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {COLUMNS.map(([id, title]) => (
              <th
                key={id}
                scope="col"
                data-column={id}
                aria-sort={id !== column ? undefined : isUp ? "ascending" : "descending"}
              >
                <button
                  type="button"
                  onClick={() => {
                    setTo(route, { sort: id !== column ? id : isUp ? `-${id}` : "" });
                  }}
                >
                  {title}
                  <span aria-hidden="true">{id !== column ? "" : isUp ? " ▲" : " ▼"}</span>
                </button>
              </th>
            ))}
            {hasCurves && (
              <th scope="col" data-column="curve">
                Last 10 min
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          <Space rows={first} height={height} />
          {shown.map((row, at) => (
            <RowView
              key={row.name}
              row={row}
              index={first + at + 2}
              route={route}
              isUtc={isUtc}
              curveAtMs={hasCurves ? nowMs : undefined}
              write={setWritten}
            />
          ))}
          <Space rows={rows.length - first - shown.length} height={height} />
        </tbody>
      </table>
      {written !== undefined && (
        <WriteDialog
          name={written}
          close={() => {
            setWritten(undefined);
          }}
        />
      )}
    </div>
  );
}

/** Writes one PV of the table, and shows the outcome. */
function WriteDialog({ close, name }: { readonly name: string; readonly close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    // Enter, which may have opened it and still be held, presses no choice: that would write at once.
    (dialog.current?.querySelector<HTMLElement>("input, select") ?? leave.current)?.focus();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="write-title" onClose={close}>
      <h2 id="write-title">Write {name}</h2>
      <SetPoint name={name} label="New value" />
      <div className="choices">
        <button ref={leave} type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}

interface RowViewProps {
  readonly row: Row;
  readonly index: number;
  readonly route: Route;
  readonly isUtc: boolean;
  /** `undefined`: rows have no curves. */
  readonly curveAtMs: number | undefined;
  readonly write: (name: string) => void;
}

/** Scrolling renders only rows that come to the screen. */
const RowView = memo(function RowView(props: RowViewProps) {
  const { curveAtMs, index, isUtc, route, row, write } = props;
  const { name } = row;
  const pv = usePv<RowData>(name, ROW);
  const { isStale, severity, state, text } = useCondition(pv, undefined, name);
  const href = hrefOf(elsewhere(route, { page: "pv", name, names: [] }));
  const isLocked = route.settings.lock === "1";
  return (
    <tr
      className="pvwire-state"
      aria-rowindex={index}
      data-row={name}
      data-state={state}
      data-severity={severity}
    >
      <td data-column="name">
        <a href={href} title={pv?.display?.description}>
          {name}
        </a>
      </td>
      <td data-column="value" title={pv?.value?.string}>
        {pv?.value?.string ?? "–"}
        <button
          type="button"
          className="write"
          aria-label={`Write ${name}`}
          title={isLocked ? "This page is read-only" : "Write"}
          disabled={isLocked}
          onClick={() => {
            write(name);
          }}
        >
          ✎
        </button>
      </td>
      <td data-column="state" title={text}>
        <StateIcon state={state} severity={severity} isStale={isStale} />
        <span>{text}</span>
      </td>
      <td data-column="time">{pv?.time == null ? "–" : stampText(pv.time, isUtc).slice(0, 23)}</td>
      {curveAtMs !== undefined && (
        <td data-column="curve">
          <Sparkline name={name} nowMs={curveAtMs} />
        </td>
      )}
    </tr>
  );
});
