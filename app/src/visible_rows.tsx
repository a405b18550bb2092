/** Rows of a long table: only those on the screen are in the page. */

import { useLayoutEffect, useState, type ReactNode, type RefObject } from "react";

/** Rows above and below the screen. */
const SPARE_ROWS = 8;

export interface VisibleRows {
  readonly first: number;
  readonly count: number;
  /** Height of one row in pixels, as it was measured. */
  readonly height: number;
}

/** Which rows of a table are on the screen of the element that scrolls. Rows have the attribute `data-row`. */
export function useVisibleRows(room: RefObject<HTMLElement | null>, rows: number): VisibleRows {
  const [seen, setSeen] = useState({ top: 0, height: 800, row: 32 });
  useLayoutEffect(() => {
    const element = room.current;
    if (element === null) return;
    const measure = (): void => {
      const row = element.querySelector("[data-row]")?.getBoundingClientRect().height ?? 32;
      setSeen({ top: element.scrollTop, height: element.clientHeight, row: Math.max(row, 8) });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
    // The first row may be of another height than the one that was assumed without one.
  }, [room, rows]);
  const last = Math.min(Math.floor(seen.top / seen.row) - SPARE_ROWS, rows - 1);
  const count = Math.ceil(seen.height / seen.row) + 2 * SPARE_ROWS;
  return { first: Math.max(0, last), count, height: seen.row };
}

/** The height of the rows that aren't in the page. */
export function Space({
  height,
  rows,
}: {
  readonly height: number;
  readonly rows: number;
}): ReactNode {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true">
      <td className="space" style={{ height: `${String(rows * height)}px` }} />
    </tr>
  );
}
