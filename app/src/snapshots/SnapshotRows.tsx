/** The rows of a snapshot: saved value, the other one, their difference, and what a restore does. */

import { useRef, type ReactNode } from "react";

import { elsewhere, hrefOf, type Route } from "../route";
import { stampText } from "../times";
import { Space, useVisibleRows } from "../visible_rows";
import { toleranceOf, type Line } from "./compare";
import type { Outcome } from "./restore";

interface SnapshotRowsProps {
  readonly route: Route;
  readonly lines: readonly Line[];
  readonly otherTitle: string;
  readonly outcomes: ReadonlyMap<string, Outcome>;
  readonly unticked: ReadonlySet<string>;
  readonly tick: (name: string, isTicked: boolean) => void;
  readonly setTolerance: (name: string, text: string) => void;
}

export function SnapshotRows(props: SnapshotRowsProps): ReactNode {
  const { lines, otherTitle, outcomes } = props;
  const room = useRef<HTMLDivElement>(null);
  const { count, first, height } = useVisibleRows(room, lines.length);
  const shown = lines.slice(first, first + count);
  const columns = [
    ["tick", "Write"],
    ["name", "PV"],
    ["value", "Saved"],
    ["alarm", "Alarm"],
    ["time", "Time"],
    ["other", otherTitle],
    ["difference", "Difference"],
    ["tolerance", "Tolerance"],
    ["outcome", "Outcome"],
  ] as const;
  return (
    <div
      ref={room}
      className="table-room snapshot-room"
      role="region"
      aria-label="Values"
      tabIndex={0}
      data-outcomes={outcomes.size > 0 || undefined}
    >
      <table aria-rowcount={lines.length + 1}>
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
          {shown.map((line, at) => (
            <RowView key={line.pv.name} {...props} line={line} index={first + at + 2} />
          ))}
          <Space rows={lines.length - first - shown.length} height={height} />
        </tbody>
      </table>
    </div>
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
          aria-label={`Restore ${name}`}
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
          aria-label={`Tolerance of ${name}`}
          defaultValue={tolerance}
          aria-invalid={toleranceOf(tolerance) === undefined}
          onBlur={({ target }) => {
            if (target.value.trim() !== tolerance) setTolerance(name, target.value);
          }}
          onKeyDown={({ currentTarget, key }) => {
            if (key === "Enter") currentTarget.blur();
          }}
        />
      </td>
      <td data-column="outcome" title={outcome?.text}>
        {outcome?.text}
      </td>
    </tr>
  );
}
