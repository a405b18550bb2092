/** Fewer rows in the place of many: a curve that gets too long keeps its extremes, its gaps and its alarms. */

/** What rows of one kind have. */
export interface RowReader<Row> {
  /** Not finite: from this row on there is no number. */
  readonly numberOf: (row: Row) => number;
  /** Larger is worse. */
  readonly severityOf?: (row: Row) => number;
  /** Rows in different parts are never folded together. */
  readonly partOf?: (row: Row) => number;
}

/** Rows that become fewer together. */
const GROUP = 8;

/** Part of the most rows that remains if folding isn't enough. */
const REST = 0.9;

/**
 * Rows in order, of which there are too many. In the older half, the first, lowest, highest and last one of each eight remain, with
 * one of the worst alarm; after a gap also those that follow it. The oldest rows are dropped only if there are still more than `most`.
 */
export function folded<Row>(rows: readonly Row[], most: number, reader: RowReader<Row>): Row[] {
  const { partOf = () => 0 } = reader;
  const half = rows.length >> 1;
  const kept: Row[] = [];
  let group: Row[] = [];
  let part: number | undefined;
  for (const row of rows.slice(0, half)) {
    const own = partOf(row);
    if (group.length === GROUP || own !== part) {
      kept.push(...remaining(group, reader));
      group = [];
      part = own;
    }
    group.push(row);
  }
  kept.push(...remaining(group, reader), ...rows.slice(half));
  return kept.length > REST * most ? kept.slice(-Math.floor(REST * most)) : kept;
}

/** What remains of a group. Values between its first gap and its last one are part of a single gap. */
function remaining<Row>(
  group: readonly Row[],
  { numberOf, severityOf = () => 0 }: RowReader<Row>,
): Row[] {
  const numbers = group.map(numberOf);
  const severities = group.map(severityOf);
  const isGap = numbers.map((number) => !Number.isFinite(number));
  const [first, last] = [isGap.indexOf(true), isGap.lastIndexOf(true)];
  const kept = new Set([first]);
  const keepExtremes = (from: number, end: number): void => {
    if (from >= end) return;
    let [low, high, worst] = [from, from, from];
    const isAbove = (values: readonly number[], one: number, other: number): boolean =>
      (values[one] ?? NaN) > (values[other] ?? NaN);
    for (let at = from; at < end; at += 1) {
      if (isAbove(numbers, low, at)) low = at;
      if (isAbove(numbers, at, high)) high = at;
      if (isAbove(severities, at, worst)) worst = at;
    }
    for (const at of [from, low, high, worst, end - 1]) kept.add(at);
  };
  keepExtremes(0, first < 0 ? group.length : first);
  if (first >= 0) keepExtremes(last + 1, group.length);
  return group.filter((_, at) => kept.has(at));
}
