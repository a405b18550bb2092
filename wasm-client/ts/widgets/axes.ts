/** The range, ticks and label widths of a plot's axes. */

import type { Points } from "./decimate.js";
import { rangeAround, type Range } from "./scale.js";
import { choiceTicks, ticksOf, timeTicks, type Ticks } from "./ticks.js";

/** The horizontal axis, and what the numbers of the vertical one are. */
export interface Axes {
  readonly x: Range;
  /** The time at x = 0, in seconds past the POSIX epoch; without it x is an index. */
  readonly time?: number;
  /** Whether times are in UTC instead of the user's time zone. */
  readonly isUtc?: boolean | undefined;
  /** Whether y has no fractions. */
  readonly isWhole?: boolean | undefined;
  /** The labels of y if it is the index of an enum. */
  readonly choices?: readonly string[] | null | undefined;
  /** Ends of the vertical axis; otherwise the range of the data. */
  readonly y?: Range | undefined;
}

export interface AxesLayout {
  readonly y: Range;
  readonly ticks: { readonly x: Ticks; readonly y: Ticks };
  /** Widths of the widest labels, in pixels. */
  readonly widths: { readonly x: number; readonly y: number };
}

/** Space for a label along each axis, and beside those of the vertical one for its tick. */
const SPACE = { index: 50, time: 84, y: 30 } as const;
export const TICK_SPACE = 19;

const LEAST_WIDTH = 33;

/** How often the range of labels that are too wide is enlarged. */
const TRIES = 15;

export function layOutAxes(
  { choices, isUtc, isWhole = false, time, x, y: given }: Axes,
  points: Points,
  size: { readonly width: number; readonly height: number },
  widthOf: (labels: readonly string[]) => number,
): AxesLayout {
  let y = given ?? rangeOf(points);
  const yTicks = (): Ticks => {
    const plain = ticksOf(y, size.height / SPACE.y, isWhole || choices != null);
    return choices == null ? plain : choiceTicks(plain, choices);
  };
  let ticks = yTicks();
  const isWide = (): boolean => widthOf(ticks.labels) + TICK_SPACE > size.width / 2;
  // Numbers with many digits would leave no space for the curve: a larger range needs fewer.
  for (
    let tried = 0;
    tried < TRIES && given === undefined && choices == null && isWide();
    tried += 1
  ) {
    const room = 3 * (y[1] - y[0]);
    y = rangeAround(y[0] - room, y[1] + room);
    ticks = yTicks();
  }
  const width = Math.max(LEAST_WIDTH, widthOf(ticks.labels));
  const xTicks = xTicksOf(x, time, size.width - width - TICK_SPACE, isUtc);
  return {
    y,
    ticks: { x: xTicks, y: ticks },
    widths: { x: widthOf(xTicks.labels), y: width },
  };
}

function xTicksOf(x: Range, time: number | undefined, width: number, isUtc?: boolean): Ticks {
  if (time === undefined) return ticksOf(x, width / SPACE.index, true);
  const { at, labels } = timeTicks([x[0] + time, x[1] + time], width / SPACE.time, isUtc);
  return { at: at.map((tick) => tick - time), labels };
}

function rangeOf({ y }: Points): Range {
  let [low, high] = [Infinity, -Infinity];
  for (const number of y) {
    if (number === null) continue;
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  return rangeAround(low, high);
}
