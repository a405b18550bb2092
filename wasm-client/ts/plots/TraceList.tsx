/** The traces as a table: what each is at the cursor or now, and its range in the time that is shown. */

import type { ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvValue } from "../types.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "../widgets/condition.js";
import { StateIcon } from "../widgets/StateIcon.js";
import { t } from "../texts.js";
import { numberText } from "./numbers.js";
import { rangeOf, stepsOf, valueAt, type Span } from "./steps.js";
import { timeText } from "./times.js";
import type { Trace } from "./traces.js";

const ROW = `{ value { string(units: true) number } ${CONDITION_FIELDS} }`;

interface RowData extends ConditionData {
  readonly value: Pick<PvValue, "string" | "number"> | null;
}

export interface TraceListProps {
  readonly traces: readonly Trace[];
  readonly hidden: ReadonlySet<string>;
  readonly toggle: (name: string) => void;
  readonly span: Span;
  readonly isUtc: boolean;
  /** In seconds past 1970; `undefined`: the values are those of the end of the span. */
  readonly at: number | undefined;
  /** The values are the present ones. */
  readonly isNow: boolean;
  readonly hrefOf: ((name: string) => string) | undefined;
  readonly onRemove: ((name: string) => void) | undefined;
  /** For curves against a PV instead of time. */
  readonly against?: Against;
}

export interface Against {
  /** The PV of the horizontal axis: its row has no curve that could be hidden or removed. */
  readonly xName: string;
  /** The ends of the arrays. */
  readonly ranges: ReadonlyMap<string, readonly [low: number, high: number]>;
  /** Why a PV has no curve, or what of it is missing. */
  readonly notes: ReadonlyMap<string, string>;
}

export function TraceList(props: TraceListProps): ReactNode {
  const { at, isNow, isUtc, onRemove, span, traces } = props;
  return (
    <div className="pvwire-trace-room">
      <table className="pvwire-traces">
        <thead>
          <tr>
            <th scope="col">{t`PV`}</th>
            <th scope="col" data-column="at">
              {isNow ? t`Now` : timeText(at ?? span.to, isUtc)}
            </th>
            <th scope="col">{t`Lowest`}</th>
            <th scope="col">{t`Highest`}</th>
            <th scope="col" data-column="state">
              {t`State now`}
            </th>
            {onRemove !== undefined && (
              <th scope="col">
                <span className="pvwire-visually-hidden">{t`Remove`}</span>
              </th>
            )}
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

function TraceRow(props: TraceListProps & { readonly trace: Trace }) {
  const { against, at, hidden, hrefOf, isNow, onRemove, span, toggle, trace } = props;
  const { choices, colour, history, name, units } = trace;
  const pv = usePv<RowData>(name, ROW);
  const { isStale, severity, state, text } = useCondition(pv, undefined, name);
  const steps = history === undefined ? undefined : stepsOf(history);
  const range =
    against?.ranges.get(name) ?? (steps === undefined ? undefined : rangeOf(steps, span));
  const textOf = (number: number | undefined): string => {
    if (number === undefined) return "–";
    const [low, high] = range ?? [number, number];
    const plain = choices?.[number] ?? numberText(number, high - low);
    return units === "" ? plain : `${plain} ${units}`;
  };
  const shown = isNow
    ? (pv?.value?.string ?? "–")
    : textOf(steps === undefined ? undefined : valueAt(steps, at ?? span.to));
  const isNumber = against !== undefined || pv?.value?.number !== null;
  const isX = name === against?.xName;
  const note = against?.notes.get(name) ?? "";
  const problem = history?.error === undefined ? "" : t`no past: ${history.error.message}`;
  const href = hrefOf?.(name);
  return (
    <tr data-trace={name} className="pvwire-state" data-severity={severity} data-state={state}>
      <td data-column="name">
        {isX ? (
          <span className="pvwire-note">{t`Horizontal:`} </span>
        ) : (
          <label>
            <input
              type="checkbox"
              aria-label={t`Show ${name}`}
              checked={!hidden.has(name)}
              onChange={() => {
                toggle(name);
              }}
            />
            <svg className="pvwire-swatch" viewBox="0 0 24 8" aria-hidden="true">
              <path
                d="M0 4h24"
                stroke={colour}
                strokeWidth="4"
                strokeDasharray={trace.dash.join(" ") || undefined}
              />
            </svg>
          </label>
        )}
        {href === undefined ? name : <a href={href}>{name}</a>}
      </td>
      <td data-column="at">
        <StateIcon state={state} severity={severity} isStale={isStale} />
        {shown}
      </td>
      <td data-column="low">{textOf(range?.[0])}</td>
      <td data-column="high">{textOf(range?.[1])}</td>
      <td data-column="state">
        {[isNumber ? text : t`No number: nothing to draw`, note, problem]
          .filter(Boolean)
          .join(" · ")}
      </td>
      {onRemove !== undefined && (
        <td>
          {!isX && (
            <button
              type="button"
              aria-label={t`Remove ${name}`}
              title={t`Remove`}
              onClick={() => {
                onRemove(name);
              }}
            >
              ×
            </button>
          )}
        </td>
      )}
    </tr>
  );
}
