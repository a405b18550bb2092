/** What of the open list is in alarm, not connected or not readable, the worst and the newest first. */

import { useEffect, type ReactNode } from "react";
import { t } from "pvwire";
import { usePv } from "pvwire/react";
import { StateIcon, useCondition } from "pvwire/widgets";

import { Acknowledge, useUnacknowledged } from "./Acknowledge";
import { ageText, dateText, useClock } from "./times";
import { pvsText } from "./texts";
import { filterOf, Filters, passes } from "./Filters";
import { ListBox } from "./ListBox";
import { KINDS } from "./pv_kind";
import { ROW, usePvList, type LiveRow, type PvList, type RowData } from "./pv_list";
import { elsewhere, hrefOf, parseRoute, setTo, type Route } from "./route";
import { beep, isSilent } from "./sound";
import { useNamesOnce } from "./TablePage";
import { moodOfList, useTitle } from "./title";

const BAD = ["MAJOR", "INVALID", "gone", "MINOR"] as const;

/** More rows than a person reads: the filters find the others. */
const MAX_ROWS = 500;

export default function AlarmsPage({ route }: { readonly route: Route }): ReactNode {
  const names = useNamesOnce(route);
  const list = usePvList(names);
  const filter = filterOf(route);
  const isUtc = route.settings.utc === "1";
  const { of = "" } = route.settings;
  const bad = list.rows.filter(({ kind }) => BAD.some((each) => each === kind));
  const rows = bad
    .filter((row) => passes(filter, row, row.read()))
    .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || b.sinceMs - a.sinceMs);
  // Of the whole list: a filter hides no alarm from the icon.
  useTitle(bad.length === 1 ? t`1 alarm` : t`${bad.length} alarms`, moodOfList(KINDS, list.counts));
  const nowMs = useClock(1000);
  const hasSound = route.settings.sound === "1";
  useSound(list, hasSound);
  const known = names.length - list.counts.searched;
  return (
    <div className="alarms-page">
      <h1>{t`Alarms`}</h1>
      {of.startsWith("#/") && (
        <p className="note">
          <a href={of}>{t`Back to ${parseRoute(of).name || t`Snapshots`}`}</a>
        </p>
      )}
      <ListBox route={route} />
      {names.length > 0 && (
        <section className="panel alarm-panel" aria-label={t`Alarms`}>
          <Filters route={route} list={list} kinds={BAD}>
            <button
              type="button"
              aria-pressed={hasSound}
              title={t`A tone when a PV gets into alarm or is disconnected, while this page is open`}
              onClick={() => {
                // The browser allows sound after a press only: this is one.
                if (!hasSound) beep("MINOR");
                setTo(route, { sound: hasSound ? "" : "1" });
              }}
            >
              {t`Sound`}
            </button>
            {hasSound && isSilent() && (
              <span className="note" role="status">
                {t`This browser is silent until you click the page.`}
              </span>
            )}
          </Filters>
          {rows.length === 0 ? (
            <p className="note" role="status">
              {bad.length > 0
                ? t`No alarm passes the filters.`
                : known < names.length
                  ? t`No alarm among ${String(known)} of ${pvsText(names.length)}; the others are searched.`
                  : names.length === 1
                    ? t`No alarm. The PV is connected.`
                    : t`No alarm. All ${pvsText(names.length)} are connected.`}
            </p>
          ) : (
            <ul className="alarm-list">
              {rows.slice(0, MAX_ROWS).map((row) => (
                <Alarm key={row.name} row={row} route={route} isUtc={isUtc} nowMs={nowMs} />
              ))}
            </ul>
          )}
          {rows.length > MAX_ROWS && (
            <p className="note">{t`${rows.length - MAX_ROWS} more: filter by name or state.`}</p>
          )}
          <Unacknowledged route={route} list={list} names={names} />
        </section>
      )}
    </div>
  );
}

/** A tone when a PV becomes worse; several at once make one tone, that of the worst. */
function useSound(list: PvList, isOn: boolean): void {
  useEffect(() => {
    const worst = list.takeWorst();
    if (worst !== undefined && isOn) beep(worst);
  });
}

interface UnacknowledgedProps {
  readonly route: Route;
  readonly list: PvList;
  readonly names: readonly string[];
}

/** Records whose alarm is over, and that keep its severity until it is acknowledged. */
function Unacknowledged({ list, names, route }: UnacknowledgedProps) {
  const severities = useUnacknowledged(names);
  const { text } = filterOf(route);
  const rows = list.rows.filter(
    (row) =>
      row.kind === "NO_ALARM" &&
      severities.has(row.name) &&
      passes({ text, kinds: [] }, row, row.read()),
  );
  if (rows.length === 0) return null;
  return (
    <details open={rows.length <= 20}>
      <summary>{t`Over, but not acknowledged: ${rows.length}`}</summary>
      <ul className="alarm-list">
        {rows.map(({ name }) => (
          <li key={name} data-over={name}>
            <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
            <span>{t`no alarm now, ${severities.get(name) ?? ""} before`}</span>
            <Acknowledge name={name} isLocked={route.settings.lock === "1"} hasAlarm />
          </li>
        ))}
      </ul>
    </details>
  );
}

interface AlarmProps {
  readonly row: LiveRow;
  readonly route: Route;
  readonly isUtc: boolean;
  readonly nowMs: number;
}

function Alarm({ isUtc, nowMs, route, row }: AlarmProps) {
  const { alarms, isEarlier, name, sinceMs, then } = row;
  const pv = usePv<RowData>(name, ROW);
  const { isPresent, isStale, severity, state, text } = useCondition(pv, undefined, name);
  return (
    <li className="pvwire-state" data-alarm={name} data-severity={severity} data-state={state}>
      <StateIcon state={state} severity={severity} isStale={isStale} />
      <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
      <span className="alarm-value" title={pv?.value?.string}>
        {pv?.value?.string ?? "–"}
      </span>
      <span className="alarm-text">{text}</span>
      <Acknowledge
        name={name}
        isLocked={route.settings.lock === "1"}
        hasAlarm={isPresent && severity !== undefined && severity !== "NO_ALARM"}
      />
      <span className="alarm-since">
        {isEarlier
          ? t`since ${dateText(sinceMs, isUtc)} or earlier`
          : t`since ${dateText(sinceMs, isUtc)} (${ageText(nowMs - sinceMs)})`}
        {then !== "" && ` · ${t`${then} then`}`}
        {alarms > 1 && ` · ${t`${alarms} times`}`}
      </span>
    </li>
  );
}
