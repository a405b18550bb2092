/** Ranges of axes and scales, for numbers of any magnitude. */

export type Range = readonly [low: number, high: number];

/**
 * The smallest range relative to its numbers, and the smallest one at all. In a smaller range the
 * next tick could be the same double as the one before.
 */
const LEAST_RELATIVE = 2 ** -46;
const LEAST = 1e-300;

/** A range with space above and below the curve, also for a flat one. */
export function rangeAround(low: number, high: number): Range {
  if (!(low <= high && Number.isFinite(low) && Number.isFinite(high))) return [0, 1];
  const room = low === high ? Math.abs(low) * 0.1 || 1 : (high / 2 - low / 2) * 0.16;
  return widened(low - room, high + room);
}

/** The range that an application sets; `undefined` if it isn't one. */
export function givenRange(range: Range | undefined): Range | undefined {
  const [one, other] = range ?? [NaN, NaN];
  if (!Number.isFinite(one) || !Number.isFinite(other)) return undefined;
  return one === other
    ? rangeAround(one, one)
    : widened(Math.min(one, other), Math.max(one, other));
}

/** A range that is wide enough for ticks, and finite. */
export function widened(from: number, to: number): Range {
  const [low, high] = [Math.max(from, -Number.MAX_VALUE), Math.min(to, Number.MAX_VALUE)];
  const least = Math.max(Math.max(Math.abs(low), Math.abs(high)) * LEAST_RELATIVE, LEAST);
  const room = Math.max(0, (least - (high - low)) / 2);
  return [Math.max(low - room, -Number.MAX_VALUE), Math.min(high + room, Number.MAX_VALUE)];
}

/** The position of a number in a range: 0 at its low end, 1 at its high end. Never overflows. */
export function positionIn([low, high]: Range, number: number): number {
  return (number / 2 - low / 2) / (high / 2 - low / 2);
}
