/** The name and state of one cell of the wall, chosen by the pointer or by the arrow keys. */

import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import type { PvValue } from "pvwire";
import { usePv } from "pvwire/react";
import { CONDITION_FIELDS, StateIcon, useCondition, type ConditionData } from "pvwire/widgets";

/** The PVs of the wall. The relay simulates them, so that no IOC is needed. */
export const WALL_NAMES: readonly string[] = Array.from(
  { length: 5000 },
  (_, index) => `sim://sine(${String(5 + (index % 60))},amplitude=9,offset=${String(index % 977)})`,
);

export const CELL = { width: 62, height: 16 } as const;

/** Number of columns of cells in a room of this width. */
export function columnsIn(width: number): number {
  return Math.max(1, Math.floor(width / CELL.width));
}

/** The index of the cell at a position in the room; `undefined` beyond the cells. */
function cellAt(room: Element, clientX: number, clientY: number): number | undefined {
  const { left, top } = room.getBoundingClientRect();
  const columns = columnsIn(room.clientWidth);
  const [column, row] = [
    Math.floor((clientX - left) / CELL.width),
    Math.floor((clientY - top) / CELL.height),
  ];
  const at = row * columns + column;
  return column >= 0 && column < columns && at >= 0 && at < WALL_NAMES.length ? at : undefined;
}

const SELECTION = `{ value { string(units: true) } ${CONDITION_FIELDS} }`;

interface CellData extends ConditionData {
  readonly value: Pick<PvValue, "string"> | null;
}

/** The room of the wall's cells, and below it the chosen cell. */
export function CellRoom({ children }: { readonly children: ReactNode }): ReactNode {
  const room = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number>();
  const [columns, setColumns] = useState(1);
  const [isByKey, setIsByKey] = useState(false);
  const choose = (next: number, byKey: boolean): void => {
    setColumns(columnsIn(room.current?.clientWidth ?? 0));
    setIsByKey(byKey);
    setAt(next);
  };
  const step = (event: KeyboardEvent): void => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    const by = (steps as Partial<Record<string, number>>)[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = at === undefined ? 0 : at + by;
    if (next >= 0 && next < WALL_NAMES.length) choose(next, true);
  };
  return (
    <>
      <div
        ref={room}
        className="wall-room"
        role="group"
        aria-label="Cells; the arrow keys choose one"
        tabIndex={0}
        onKeyDown={step}
        onPointerMove={({ clientX, clientY, currentTarget }) => {
          const under = cellAt(currentTarget, clientX, clientY);
          if (under !== undefined) choose(under, false);
        }}
      >
        {children}
        {at !== undefined && <Outline at={at} columns={columns} isShown={isByKey} />}
      </div>
      <p className="wall-cell" role="status">
        {at === undefined ? (
          "Point at a cell, or press an arrow key, for its PV."
        ) : (
          <Cell key={at} name={WALL_NAMES[at] ?? ""} />
        )}
      </p>
    </>
  );
}

interface OutlineProps {
  readonly at: number;
  readonly columns: number;
  /** Whether the page is scrolled to it. */
  readonly isShown: boolean;
}

function Outline({ at, columns, isShown }: OutlineProps) {
  const element = useRef<HTMLSpanElement>(null);
  const [left, top] = [(at % columns) * CELL.width, Math.floor(at / columns) * CELL.height];
  useEffect(() => {
    if (isShown) element.current?.scrollIntoView({ block: "nearest" });
  }, [left, top, isShown]);
  return <span ref={element} className="wall-outline" style={{ left, top }} />;
}

function Cell({ name }: { readonly name: string }) {
  const pv = usePv<CellData>(name, SELECTION);
  const { isStale, severity, state, text } = useCondition(pv);
  return (
    <span className="pvwire-state" data-severity={severity}>
      <StateIcon state={state} severity={severity} isStale={isStale} /> <strong>{name}</strong>{" "}
      {pv?.value?.string ?? "–"} · {text}
    </span>
  );
}
