/** The rows of an NTTable. */

import type { ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvDisplay, PvField, PvStructure, PvValue } from "../types.js";
import { t } from "../texts.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { formatCount } from "./format.js";
import { Frame, kindOf, Nothing } from "./Frame.js";
import { perPv } from "./per_pv.js";

const SELECTION = `{ value { structure array text } display { description } ${CONDITION_FIELDS} }`;

interface TableData extends ConditionData {
  readonly value: Pick<PvValue, "structure" | "array" | "text"> | null;
  readonly display: Pick<PvDisplay, "description"> | null;
}

/** The properties of `TableView`. */
export interface TableViewProps {
  /** The PV: an NTTable. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** Maximum number of rows shown; the number of further rows is displayed. @default 200 */
  readonly maxRows?: number;
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/** An NTTable, one column per field. */
export const TableView = perPv(function TableView(props: TableViewProps): ReactNode {
  const { label = props.name, maxRows = 200, name, staleAfterMs } = props;
  const pv = usePv<TableData>(name, SELECTION);
  const condition = useCondition(pv, staleAfterMs, name);
  const value = pv?.value ?? null;
  // Only an NTTable has this field.
  const isTable = value?.structure?.labels !== undefined;
  const columns = isTable ? columnsOf(value.structure) : [];
  const rows = Math.max(0, ...columns.map(({ cells }) => cells.length));
  return (
    <Frame
      kind="table"
      name={name}
      label={label}
      condition={condition}
      summary={isTable ? t`${formatCount(rows)} rows` : "–"}
      description={pv?.display?.description}
    >
      <Nothing why={value !== null && !isTable && t`Not a table: this is ${kindOf(value)}`} />
      {/* Focusable, so that it can be scrolled without a mouse. */}
      <div className="pvwire-table-room" role="region" aria-label={t`${label}: table`} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {columns.map(({ cells, head }, at) => (
                <th key={at} scope="col" data-number={isNumber(cells[0]) || undefined}>
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {Array.from({ length: Math.min(rows, maxRows) }, (_, row) => (
              <tr key={row}>
                {columns.map(({ cells }, at) => (
                  <td key={at} data-number={isNumber(cells[row]) || undefined}>
                    {cellText(cells[row])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {rows > maxRows && (
          <p className="pvwire-nothing">{t`${formatCount(rows - maxRows)} more rows`}</p>
        )}
      </div>
    </Frame>
  );
});

interface Column {
  readonly head: string;
  readonly cells: ArrayLike<PvField>;
}

function columnsOf(structure: PvStructure | null): Column[] {
  const fields = Object.entries((structure?.value ?? {}) as PvStructure);
  const labels = (structure?.labels ?? []) as readonly string[];
  return fields.flatMap(([field, cells], at) =>
    Array.isArray(cells) || ArrayBuffer.isView(cells)
      ? [{ head: labels[at] ?? field, cells: cells as ArrayLike<PvField> }]
      : [],
  );
}

const isNumber = (cell: PvField | undefined): boolean => cell != null && typeof cell !== "string";

function cellText(cell: PvField | undefined): string {
  if (cell == null) return "";
  if (typeof cell === "object") return JSON.stringify(cell);
  // Fractions without digits that a float doesn't have, integers with all.
  const isFraction = typeof cell === "number" && cell % 1 !== 0;
  return String(isFraction ? Number(cell.toPrecision(9)) : cell);
}
