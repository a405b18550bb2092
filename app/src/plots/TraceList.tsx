/** The traces as a table: what each is at the cursor or now, and its range in the time that is shown. */

import type { ReactNode } from "react";
import { usePv } from "pvwire/react";
import { StateIcon, useCondition } from "pvwire/widgets";

import { ROW, type RowData } from "../pv_list";
import { elsewhere, go, hrefOf, type Route } from "../route";
import { stampText } from "../times";
import { numberText } from "./numbers";
import { rangeOf, stepsOf, valueAt, type Span } from "./steps";
import type { Trace } from "./traces";

interface TraceListProps {
  readonly route: Route;
  readonly traces: readonly Trace[];
  readonly hidden: ReadonlySet<string>;
  readonly toggle: (name: string) => void;
  readonly span: Span;
  /** `undefined`: the present values are shown. */
  readonly cursor: number | undefined;
}

export function TraceList(props: TraceListProps): ReactNode {
  const { cursor, route, traces } = props;
  const isUtc = route.settings.utc === "1";
  const at =
    cursor === undefined
      ? "Now"
      : stampText({ seconds: cursor, nanoseconds: Math.floor((cursor % 1) * 1e9) }, isUtc).slice(
          0,
          23,
        );
  return (
    <div className="trace-room">
      <table className="traces">
        <thead>
          <tr>
            <th scope="col">PV</th>
            <th scope="col" data-column="at">
              {at}
            </th>
            <th scope="col">Lowest</th>
            <th scope="col">Highest</th>
            <th scope="col" data-column="state">
              State
            </th>
            <th scope="col">
              <span className="visually-hidden">Remove</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {traces.map((trace) => (
            <TraceRow key={trace.name} {...props} trace={trace} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TraceRow({
  cursor,
  hidden,
  route,
  span,
  toggle,
  trace,
}: TraceListProps & { readonly trace: Trace }) {
  const { choices, colour, history, name, units } = trace;
  const pv = usePv<RowData>(name, ROW);
  const { isStale, severity, state, text } = useCondition(pv, undefined, name);
  const steps = history === undefined ? undefined : stepsOf(history);
  const range = steps === undefined ? undefined : rangeOf(steps, span);
  const textOf = (number: number | undefined): string => {
    if (number === undefined) return "–";
    const [low, high] = range ?? [number, number];
    const plain = choices?.[number] ?? numberText(number, high - low);
    return units === "" ? plain : `${plain} ${units}`;
  };
  const present = pv?.value?.string ?? "–";
  const isNumber = pv?.value?.number !== null;
  const problem = history?.error === undefined ? "" : `no past: ${history.error.message}`;
  return (
    <tr data-trace={name} className="pvwire-state" data-severity={severity} data-state={state}>
      <td data-column="name">
        <label>
          <input
            type="checkbox"
            aria-label={`Show ${name}`}
            checked={!hidden.has(name)}
            onChange={() => {
              toggle(name);
            }}
          />
          <svg className="swatch" viewBox="0 0 24 8" aria-hidden="true">
            <path
              d="M0 4h24"
              stroke={colour}
              strokeWidth="4"
              strokeDasharray={trace.dash.join(" ") || undefined}
            />
          </svg>
        </label>
        <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
      </td>
      <td data-column="at">
        {cursor === undefined || steps === undefined ? present : textOf(valueAt(steps, cursor))}
      </td>
      <td data-column="low">{textOf(range?.[0])}</td>
      <td data-column="high">{textOf(range?.[1])}</td>
      <td data-column="state">
        <StateIcon state={state} severity={severity} isStale={isStale} />
        {isNumber ? text : "No number: nothing to draw"} {problem}
      </td>
      <td>
        <button
          type="button"
          aria-label={`Remove ${name}`}
          title="Remove"
          onClick={() => {
            go({ ...route, names: route.names.filter((other) => other !== name) });
          }}
        >
          ×
        </button>
      </td>
    </tr>
  );
}
