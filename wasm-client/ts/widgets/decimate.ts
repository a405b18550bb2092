/** Min/max decimation of long curves: the lowest and the highest point of each column of pixels. */

export interface Points {
  readonly x: readonly number[];
  /** `null` where there is no number: the curve has a gap. */
  readonly y: readonly (number | null)[];
}

/** At most two points for each of `columns` columns, and a gap, in order; x is the index. */
export function decimate(values: ArrayLike<number | bigint | null>, columns: number): Points {
  const shown: { x: number[]; y: (number | null)[] } = { x: [], y: [] };
  const add = (index: number): void => {
    const number = Number(values[index] ?? NaN);
    shown.x.push(index);
    shown.y.push(Number.isFinite(number) ? number : null);
  };
  const count = values.length;
  if (count <= 2 * columns) {
    for (let index = 0; index < count; index += 1) add(index);
    return shown;
  }
  for (let column = 0; column < columns; column += 1) {
    const from = Math.floor((column * count) / columns);
    const to = Math.floor(((column + 1) * count) / columns);
    let lowest = -1;
    let highest = -1;
    let gap = -1;
    let low = Infinity;
    let high = -Infinity;
    for (let index = from; index < to; index += 1) {
      const number = Number(values[index] ?? NaN);
      if (!Number.isFinite(number)) {
        gap = index;
        continue;
      }
      if (number < low) {
        low = number;
        lowest = index;
      }
      if (number > high) {
        high = number;
        highest = index;
      }
    }
    let last = -1;
    for (const index of Int32Array.of(lowest, highest, gap).sort()) {
      if (index > last) add(index);
      last = index;
    }
  }
  return shown;
}
