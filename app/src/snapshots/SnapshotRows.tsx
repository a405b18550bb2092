/** The rows of a snapshot: saved value, the other one, their difference, and what a restore does. */

import { useRef, type ReactNode } from "react";
import { t } from "pvwire";

import { blurOnEnter, elsewhere, hrefOf, type Route } from "../route";
import { stampText } from "../times";
import { Space, useVisibleRows } from "../visible_rows";
import { toleranceOf, type Line } from "./compare";
import { outcomeTexts, type Outcome } from "./restore";

interface SnapshotRowsProps {
  readonly route: Route;
  readonly lines: readonly Line[];
  readonly otherTitle: string;
  readonly outcomes: ReadonlyMap<string, Outcome>;
  readonly unticked: ReadonlySet<string>;
  readonly tick: (name: string, isTicked: boolean) => void;
  readonly setTolerance: (name: string, text: string) => void;
}

/** Longer texts don't fit into their columns: the next row, which has the whole width, has them. */
const LONG_REASON = 18;
const LONG_OUTCOME = 28;

interface Why {
  readonly of: string;
  readonly text: string;
  readonly outcome: Outcome | undefined;
}

/** What a row has no room for: why a value is missing, and what has become of a put. */
function whyOf({ other, pv }: Line, otherTitle: string, outcome: Outcome | undefined): Why[] {
  const reasons = [
    [t`Saved`, pv],
    [otherTitle, other],
  ] as const;
  const texts = reasons
    .filter(([, { missing, value }]) => value === undefined && missing.length > LONG_REASON)
    .map(([title, { missing }]) => `${title}: ${missing}`);
  if (outcome !== undefined && outcome.text.length > LONG_OUTCOME) texts.push(outcome.text);
  return texts.length === 0 ? [] : [{ of: pv.name, text: texts.join(" · "), outcome }];
}

export function SnapshotRows(props: SnapshotRowsProps): ReactNode {
  const { lines, otherTitle, outcomes } = props;
  const room = useRef<HTMLDivElement>(null);
  const rows = lines.flatMap((line): (Line | Why)[] => {
    return [line, ...whyOf(line, otherTitle, outcomes.get(line.pv.name))];
  });
  const { count, first, height } = useVisibleRows(room, rows.length);
  const shown = rows.slice(first, first + count);
  const columns = [
    ["tick", t`Write`],
    ["name", "PV"],
    ["value", t`Saved`],
    ["alarm", t`Alarm`],
    ["time", t`Time`],
    ["other", otherTitle],
    ["difference", t`Difference`],
    ["tolerance", t`Tolerance`],
    ["outcome", t`Outcome`],
  ] as const;
  return (
    <div
      ref={room}
      className="table-room snapshot-room"
      role="region"
      aria-label={t`Values`}
      tabIndex={0}
      data-outcomes={outcomes.size > 0 || undefined}
    >
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(([id, title]) => (
              <th key={id} scope="col" data-column={id} title={title}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Space rows={first} height={height} />
          {shown.map((row, at) =>
            "of" in row ? (
              <WhyView key={`${row.of} why`} why={row} index={first + at + 2} />
            ) : (
              <RowView key={row.pv.name} {...props} line={row} index={first + at + 2} />
            ),
          )}
          <Space rows={rows.length - first - shown.length} height={height} />
        </tbody>
      </table>
    </div>
  );
}

/** Columns that a narrow window shows; a cell with more of them would add empty ones. */
const LEAST_COLUMNS = 6;

interface WhyViewProps {
  readonly why: Why;
  readonly index: number;
}

/** What the row before has no room for. */
function WhyView({ index, why: { of, outcome, text } }: WhyViewProps) {
  return (
    <tr aria-rowindex={index} className="why" data-why={of} data-outcome={outcome?.kind}>
      <td colSpan={LEAST_COLUMNS} data-column="why" title={text}>
        {text}
      </td>
    </tr>
  );
}

function RowView({
  index,
  line: { comparison, other, pv },
  outcomes,
  route,
  setTolerance,
  tick,
  unticked,
}: SnapshotRowsProps & { readonly line: Line; readonly index: number }) {
  const { missing, name, nanoseconds, seconds, tolerance, value } = pv;
  const isUtc = route.settings.utc === "1";
  const outcome = outcomes.get(name);
  const isLong = (outcome?.text.length ?? 0) > LONG_OUTCOME;
  const alarm = pv.severity === "NO_ALARM" ? "" : `${pv.severity ?? ""} ${pv.status ?? ""}`.trim();
  const stamp =
    seconds === 0
      ? "–"
      : stampText({ seconds: seconds + nanoseconds / 1e9, nanoseconds }, isUtc).slice(0, 23);
  const saved = value === undefined ? missing : pv.text;
  // The column before has the reason.
  const difference = other.value === undefined && value !== undefined ? "" : comparison.text;
  const present = other.value === undefined ? other.missing : other.text;
  return (
    <tr
      aria-rowindex={index}
      data-row={name}
      data-difference={comparison.kind}
      data-outcome={outcome?.kind}
      className="pvwire-state"
      data-severity={pv.severity ?? undefined}
    >
      <td data-column="tick">
        <input
          type="checkbox"
          aria-label={t`Restore ${name}`}
          checked={!unticked.has(name)}
          onChange={({ target }) => {
            tick(name, target.checked);
          }}
        />
      </td>
      <td data-column="name">
        <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))} title={name}>
          {name}
        </a>
      </td>
      <td data-column="value" title={saved} data-missing={value === undefined || undefined}>
        {saved}
      </td>
      <td data-column="alarm">{alarm}</td>
      <td data-column="time">{stamp}</td>
      <td data-column="other" title={present} data-missing={other.value === undefined || undefined}>
        {present}
      </td>
      <td data-column="difference" title={difference}>
        {difference}
      </td>
      <td data-column="tolerance">
        <input
          key={tolerance}
          type="text"
          aria-label={t`Tolerance of ${name}`}
          defaultValue={tolerance}
          aria-invalid={toleranceOf(tolerance) === undefined}
          onBlur={({ target }) => {
            if (target.value.trim() !== tolerance) setTolerance(name, target.value);
          }}
          onKeyDown={blurOnEnter}
        />
      </td>
      <td data-column="outcome" title={outcome?.text}>
        {outcome !== undefined && isLong ? outcomeTexts()[outcome.kind] : outcome?.text}
      </td>
    </tr>
  );
}
