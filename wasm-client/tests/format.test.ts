/** Does a number read as C's printf prints it? */

import { expect, it } from "vitest";

import { load } from "../ts/core.js";
import { formatArray, formatNumber, formatTime } from "../ts/format.js";
import { wasm } from "./golden.js";

await load(wasm);

it("rounds exact ties to even, as toFixed does not", () => {
  const table: [number, number, string][] = [
    [0.5, 0, "0"],
    [1.5, 0, "2"],
    [2.5, 0, "2"],
    [-0.5, 0, "-0"],
    [0.125, 2, "0.12"],
    [2.675, 2, "2.67"],
    [1e21, 0, "1000000000000000000000"],
    [1e22, 1, "10000000000000000000000.0"],
    [562949953421312.25, 1, "562949953421312.2"],
    [-0, 2, "-0.00"],
    [-0.001, 2, "-0.00"],
    [21.5, 3, "21.500"],
    [0.1, 30, "0.100000000000000005551115123126"],
    [NaN, 2, "nan"],
    [Infinity, 2, "inf"],
    [-Infinity, 2, "-inf"],
  ];
  for (const [value, digits, text] of table) {
    expect(formatNumber(value, digits), `${String(value)} with ${String(digits)}`).toBe(text);
  }
});

it("shortens arrays", () => {
  expect(formatArray(Float64Array.of(1, 2.25, NaN), 1)).toBe("[1.0, 2.2, nan]");
  expect(formatArray(["a", 'b"'], 1)).toBe('["a", "b\\""]');
  expect(formatArray(BigInt64Array.of(9007199254740993n), 1)).toBe("[9007199254740993]");
  expect(formatArray(new Uint8Array(11), 0)).toBe("[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, … 11 elements]");
});

it("writes times with microseconds, before 1970 too", () => {
  expect(formatTime(0, 999_999_999)).toBe("1970-01-01T00:00:00.999999Z");
  expect(formatTime(-1, 1_000)).toBe("1969-12-31T23:59:59.000001Z");
});
