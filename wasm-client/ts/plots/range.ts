/** The range of a vertical axis around the curves. */

/** Space above and below the curves, as a part of their range. */
const MARGIN = 0.08;

/** In a smaller range, relative to its numbers or at all, a tick could be the same double as the one before. */
const LEAST_RELATIVE = 2 ** -46;
const LEAST = 1e-300;

const finite = (number: number): number =>
  Math.min(Number.MAX_VALUE, Math.max(-Number.MAX_VALUE, number));

/** A range with room; a value that doesn't change is above or below the middle by `shift`, so that several are seen. */
export function padded(low: number | null, high: number | null, shift: number): [number, number] {
  if (low === null || high === null || !Number.isFinite(high - low)) return [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = high > low ? MARGIN * (high - low) : Math.abs(low) * 0.1 || 1;
  const least = Math.max(room, size * LEAST_RELATIVE, LEAST);
  const by = high > low ? 0 : shift;
  return [finite(low - least * (1 + by)), finite(high + least * (1 - by))];
}
