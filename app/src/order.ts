/** The order of values in a table. */

/** Numbers, then NaN, then texts: a comparison with NaN would leave all others in no order. */
const rankOf = (key: string | number): number =>
  typeof key === "string" ? 2 : Number.isNaN(key) ? 1 : 0;

export function compare(one: string | number, other: string | number): number {
  const rank = rankOf(one) - rankOf(other);
  if (rank !== 0 || one === other) return rank;
  return one < other ? -1 : one > other ? 1 : 0;
}
