/** What remains of curves that get too long. */

import { expect, it } from "vitest";

import { folded } from "../ts/history/fold.js";

interface Row {
  readonly at: number;
  readonly number: number;
  readonly severity: number;
}

const rowsOf = (numbers: readonly number[]): Row[] =>
  numbers.map((number, at) => ({ at, number, severity: at === 9 ? 2 : 0 }));

const READER = {
  numberOf: ({ number }: Row) => number,
  severityOf: ({ severity }: Row) => severity,
};

const kept = (numbers: readonly number[], most = 1000): number[] =>
  folded(rowsOf(numbers), most, READER).map(({ at }) => at);

const newer = (count: number): number[] => Array.from({ length: count }, () => 0);

it("keeps the first, lowest, highest and last of each eight rows, the worst alarm, and the newer half", () => {
  const older = [3, 4, 1, 5, 9, 2, 6, 5, 0, 0, 0, 0, 0, 0, 7, 0];
  const rest = Array.from({ length: 16 }, (_, at) => 16 + at);
  expect(kept([...older, ...newer(16)])).toEqual([0, 2, 4, 7, 8, 9, 14, 15, ...rest]);
});

it("keeps gaps, and shows no value in one", () => {
  // A second gap hides the value between them.
  const older = [1, 1, 1, NaN, 8, NaN, 2, 3];
  expect(kept([...older, ...newer(8)]).slice(0, 5)).toEqual([0, 2, 3, 6, 7]);
  expect(kept([...newer(8).fill(NaN), ...newer(8)]).slice(0, 2)).toEqual([0, 8]);
});

it("keeps the rows on both sides of a gap that isn't a row", () => {
  const rows = rowsOf([...Array.from({ length: 8 }, (_, at) => at), ...newer(8)]);
  const cut = { ...READER, partOf: ({ at }: Row) => (at < 3 ? 0 : 1) };
  expect(
    folded(rows, 1000, cut)
      .map(({ at }) => at)
      .slice(0, 4),
  ).toEqual([0, 2, 3, 7]);
});

it("drops the oldest rows where no row is like another", () => {
  const rows = rowsOf(newer(1000));
  const separate = { ...READER, partOf: ({ at }: Row) => at };
  const rest = folded(rows, 800, separate);
  expect(rest).toHaveLength(720);
  expect(rest.at(-1)).toBe(rows.at(-1));
});
