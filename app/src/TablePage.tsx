/** Any list of PVs as a table, now or at a past moment. Only the rows on the screen are in the page. */

import { csvText, download, Sparkline, TimeControl, usePastEnd, useTimeRange } from "pvwire/plots";
import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { t } from "pvwire";
import { usePv } from "pvwire/react";
import { type Condition, SetPoint, StateIcon, useCondition } from "pvwire/widgets";

import { kindText, KINDS } from "./pv_kind";
import { type Row, ROW, type RowData, usePvList, type ValueData } from "./pv_list";
import { dateText, spanText, stampText, useClock, zoneText } from "./times";
import {
  type About,
  aboutText,
  type Choice,
  choicesOf,
  type Column,
  ColumnChoice,
  COLUMNS,
  columnTitle,
  compare,
  isExtra,
  useDescriptions,
} from "./columns";
import { pvsText } from "./texts";
import { filterOf, Filters, passes } from "./Filters";
import { GroupRow, GroupTools, type RowGroup, useGroups } from "./GroupRows";
import { pvsIn } from "./groups";
import { ListBox } from "./ListBox";
import { usePastList } from "./past_list";
import { PageTime } from "./PageTime";
import { elsewhere, go, hrefOf, type Route, setTo } from "./route";
import { lastList, rememberList } from "./stored";
import { moodOfList, useTitle } from "./title";
import { Space, useVisibleRows } from "./visible_rows";

/** The time after a past one. */
const LAST_MINUTES = { kind: "live", seconds: 600 } as const;

const DISPLAY =
  "{ display { units precision choices type description } status { mutable writable } }";

/** Values and what is known of PVs change: rows that are sorted or found by them are put in order this often. */
const SORT_EVERY_MS = 1000;

/** The PVs of the link's list; without one, it is that of the last visit, which then is in the link. */
function useNames(route: Route): readonly string[] {
  const { names } = route;
  useEffect(() => {
    if (names.length > 0) rememberList(names);
    else if (lastList().length > 0) go({ ...route, names: lastList() }, { replace: true });
  }, [names, route]);
  return useMemo(() => pvsIn(names), [names]);
}

/** The same for pages without groups: a PV that is in several ones is there once. */
export function useNamesOnce(route: Route): readonly string[] {
  const names = useNames(route);
  return useMemo(() => [...new Set(names)], [names]);
}

export default function TablePage({ route }: { readonly route: Route }): ReactNode {
  return (
    <PageTime route={route}>
      <Table route={route} />
    </PageTime>
  );
}

function Table({ route }: { readonly route: Route }) {
  const names = useNames(route);
  const live = usePvList(names);
  const atMs = usePastEnd();
  const past = usePastList(names, atMs);
  const [, setRange] = useTimeRange();
  const list = past ?? live;
  const [column, isUp] = sortOf(route);
  const filter = filterOf(route);
  const isUtc = route.settings.utc === "1";
  const choices = choicesOf(route);
  const hasDescriptions = choices.includes("description");
  useDescriptions(names, hasDescriptions);
  const isFixed = column === "" || column === "name" || column === "state";
  useClock(isFixed && filter.text === "" ? undefined : SORT_EVERY_MS);
  // What is known of a PV is the present, also in a table of the past.
  const aboutOf = ({ at }: Row): About | undefined => live.rows[at]?.read();
  const rowsOf = (all: readonly Row[]): Row[] => {
    const found = all.filter((row) => {
      return passes(filter, row, hasDescriptions ? aboutOf(row) : undefined);
    });
    return sorted(found, (row) => keyOf(row, column, aboutOf), isUp);
  };
  const groups = useGroups(route).map(({ begin, end, isFolded, title }): RowGroup => ({
    begin,
    title,
    isFolded,
    all: list.rows.slice(begin, end),
    rows: rowsOf(list.rows.slice(begin, end)),
  }));
  const rows = groups.flatMap((group) => group.rows);
  const title = t`Table of ${pvsText(names.length)}`;
  useTitle(
    past === undefined ? title : t`${title}, past`,
    past === undefined ? moodOfList(KINDS, live.counts) : "NONE",
  );
  return (
    <div className="table-page">
      <h1>{t`Table`}</h1>
      <ListBox route={route} />
      {names.length > 0 && (
        <>
          <details className="panel time-box">
            <summary>{t`Time`}</summary>
            <TimeControl isUtc={isUtc} />
          </details>
          <section
            className="panel table-panel"
            aria-label={t`PVs`}
            data-past={past === undefined ? undefined : true}
          >
            {atMs !== undefined && (
              <p className="past-mark" role="status">
                {t`The past: values that held at ${dateText(atMs, isUtc)}, ${zoneText(isUtc)}`}{" "}
                <button
                  type="button"
                  onClick={() => {
                    setRange(LAST_MINUTES);
                  }}
                >
                  {t`Show the present`}
                </button>
              </p>
            )}
            <Filters route={route} list={list} kinds={KINDS}>
              <button
                type="button"
                aria-pressed={route.settings.curves === "1"}
                title={t`The past of each PV on the screen`}
                onClick={() => {
                  setTo(route, { curves: route.settings.curves === "1" ? "" : "1" });
                }}
              >
                {t`Curves`}
              </button>
              <GroupTools route={route} groups={groups} />
              <ColumnChoice route={route} />
              <button
                type="button"
                onClick={() => {
                  download("pvs.csv", csvOf(rows, isUtc, choices.filter(isExtra), aboutOf));
                }}
              >
                {t`Export CSV`}
              </button>
              <span className="note" role="status">
                {t`${rows.length} of ${pvsText(names.length)} · times in ${zoneText(isUtc)}`}
              </span>
            </Filters>
            <Rows route={route} groups={groups} isUtc={isUtc} isPast={past !== undefined} />
          </section>
        </>
      )}
    </div>
  );
}

function sortOf({ settings }: Route): readonly [Column | "", boolean] {
  const [, sign, name] = /^(-?)(.*)$/.exec(settings.sort ?? "") ?? [];
  const column = COLUMNS.find((column) => column === name) ?? "";
  return [column, sign !== "-"];
}

type AboutOf = (row: Row) => About | undefined;

function keyOf(row: Row, column: Column | "", aboutOf: AboutOf): string | number {
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
    case "":
      return row.at;
    default:
      return aboutText(column, aboutOf(row));
  }
}

/** Where two are equal, in the order of the list. */
function sorted(rows: readonly Row[], keyOf: (row: Row) => string | number, isUp: boolean): Row[] {
  const keyed = rows.map((row) => [keyOf(row), row] as const);
  const sign = isUp ? 1 : -1;
  keyed.sort(([a, one], [b, other]) => sign * compare(a, b) || one.at - other.at);
  return keyed.map(([, row]) => row);
}

interface RowsProps {
  readonly route: Route;
  readonly groups: readonly RowGroup[];
  readonly isUtc: boolean;
  readonly isPast: boolean;
}

/** What the table has below each other: titles of groups, and the PVs of those that aren't folded. */
function linesOf(groups: readonly RowGroup[]): readonly (RowGroup | Row)[] {
  return groups
    .filter(({ rows }) => rows.length > 0)
    .flatMap((group) => [
      ...(group.title === "" ? [] : [group]),
      ...(group.isFolded ? [] : group.rows),
    ]);
}

function Rows({ groups, isPast, isUtc, route }: RowsProps) {
  const room = useRef<HTMLDivElement>(null);
  const lines = linesOf(groups);
  const { count, first, height } = useVisibleRows(room, lines.length);
  const shown = lines.slice(first, first + count);
  const { columns = "", curves } = route.settings;
  const hasCurves = curves === "1";
  const [range] = useTimeRange();
  const [written, setWritten] = useState<string>();
  const [column, isUp] = sortOf(route);
  const choices = useMemo(() => choicesOf({ settings: { columns } }), [columns]);
  const shownColumns = COLUMNS.filter(
    (id) => id === "name" || id === "value" || choices.includes(id),
  );
  return (
    <div
      ref={room}
      className="table-room"
      role="region"
      aria-label={t`Rows`}
      tabIndex={0}
      data-extra={choices.some(isExtra) || undefined}
    >
      <table aria-rowcount={lines.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {shownColumns.map((id) => (
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
                  {id === "value" && isPast ? t`Value then` : columnTitle(id)}
                  <span aria-hidden="true">{id !== column ? "" : isUp ? " ▲" : " ▼"}</span>
                </button>
              </th>
            ))}
            {hasCurves && (
              <th scope="col" data-column="curve">
                {spanText(range)}
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          <Space rows={first} height={height} />
          {shown.map((row, at) => {
            const index = first + at + 2;
            if ("rows" in row) {
              const columns = shownColumns.length + (hasCurves ? 1 : 0);
              const key = `# ${String(row.begin)}`;
              return <GroupRow key={key} {...{ route, index, columns, height }} group={row} />;
            }
            const props = { row, route, isUtc, hasCurves, index, choices };
            // A PV may be in two groups.
            const key = `${String(row.at)} ${row.name}`;
            return isPast ? (
              <PastRow key={key} {...props} />
            ) : (
              <LiveRow key={key} {...props} write={setWritten} />
            );
          })}
          <Space rows={lines.length - first - shown.length} height={height} />
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
      <h2 id="write-title">{t`Write ${name}`}</h2>
      <SetPoint name={name} label={t`New value`} />
      <div className="choices">
        <button ref={leave} type="button" onClick={() => dialog.current?.close()}>
          {t`Close`}
        </button>
      </div>
    </dialog>
  );
}

interface RowProps {
  readonly row: Row;
  readonly index: number;
  readonly route: Route;
  readonly isUtc: boolean;
  readonly hasCurves: boolean;
  readonly choices: readonly Choice[];
}

/** Scrolling renders only rows that come to the screen. */
const LiveRow = memo(function LiveRow(
  props: RowProps & { readonly write: (name: string) => void },
) {
  const { route, row, write } = props;
  const { name } = row;
  const pv = usePv<RowData>(name, ROW);
  const condition = useCondition(pv, undefined, name);
  const isLocked = route.settings.lock === "1";
  return (
    <Cells {...props} pv={pv} about={pv} condition={condition}>
      <button
        type="button"
        className="write"
        aria-label={t`Write ${name}`}
        title={isLocked ? t`This page is read-only` : t`Write`}
        disabled={isLocked}
        onClick={() => {
          write(name);
        }}
      >
        ✎
      </button>
    </Cells>
  );
});

/** A value that held at a past moment. It can't be written. */
function PastRow(props: RowProps) {
  const { row } = props;
  // Units and choices are the present ones, and what is known of the PV besides.
  const now = usePv<About>(row.name, DISPLAY);
  const pv = row.read();
  const severity = pv?.status.severity ?? undefined;
  const missing = pv === undefined ? t`Reading the past…` : (pv.missing ?? "");
  const alarm = severity === undefined || severity === "NO_ALARM" ? "" : severity;
  const state = pv === undefined ? "connecting" : missing === "" ? "connected" : "disconnected";
  const condition = { severity, state, isStale: false, text: missing + alarm } as const;
  return <Cells {...props} pv={pv} about={now} condition={condition} />;
}

interface CellsProps extends RowProps {
  readonly pv: ValueData | undefined;
  readonly about: About | undefined;
  readonly condition: Pick<Condition, "isStale" | "severity" | "state" | "text">;
  /** What is in the cell of the value besides it. */
  readonly children?: ReactNode;
}

function Cells(props: CellsProps) {
  const { about, children, choices, condition, hasCurves, index, isUtc, pv, route, row } = props;
  const { isStale, severity, state, text } = condition;
  const { name } = row;
  return (
    <tr
      className="pvwire-state"
      aria-rowindex={index}
      data-row={name}
      data-state={state}
      data-severity={severity}
    >
      <td data-column="name">
        <a
          href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}
          title={about?.display?.description}
        >
          {name}
        </a>
      </td>
      <td data-column="value" title={pv?.value?.string}>
        {pv?.value?.string ?? "–"}
        {children}
      </td>
      {choices.includes("state") && (
        <td data-column="state" title={text}>
          <StateIcon state={state} severity={severity} isStale={isStale} />
          <span>{text}</span>
        </td>
      )}
      {choices.includes("time") && (
        <td data-column="time">
          {pv?.time == null ? "–" : stampText(pv.time, isUtc).slice(0, 23)}
        </td>
      )}
      {choices.filter(isExtra).map((choice) => (
        <td key={choice} data-column={choice} title={aboutText(choice, about)}>
          {aboutText(choice, about)}
        </td>
      ))}
      {hasCurves && (
        <td data-column="curve">
          <Sparkline name={name} />
        </td>
      )}
    </tr>
  );
}

/** The rows of the table as CSV. */
function csvOf(
  rows: readonly Row[],
  isUtc: boolean,
  extra: readonly Choice[],
  aboutOf: AboutOf,
): string {
  const zone = isUtc ? "UTC" : "local";
  const head = ["PV", "value", "state", "alarm", "status", "message", `time (${zone})`];
  const lines = rows.map((row) => {
    const { kind, name, read } = row;
    const pv = read();
    const { alarmStatus, message, severity } = pv?.status ?? {};
    const time = pv?.time == null ? "" : stampText(pv.time, isUtc);
    const texts = [pv?.value?.string, kindText(kind), severity, alarmStatus, message, time];
    const about = extra.map((column) => aboutText(column, aboutOf(row)));
    return [name, ...texts.map((text) => text ?? ""), ...about];
  });
  return csvText([[...head, ...extra], ...lines]);
}
