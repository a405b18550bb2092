/** Numbers are formatted as by C's printf. */

import { expect, it } from "vitest";

import { load } from "../ts/store/core.js";
import { formatArray, formatNumber, formatTime } from "../ts/store/format.js";
import type { PvType } from "../ts/types.js";
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

it("without a precision gives the shortest text that reads back", () => {
  const table: [number, PvType, string][] = [
    [0.1, "Float64", "0.1"],
    [2.5, "Float64", "2.5"],
    [-0, "Float64", "-0"],
    [1e-7, "Float64", "1e-7"],
    [1e21, "Float64", "1e+21"],
    [5e-324, "Float64", "5e-324"],
    [0.1 + 0.2, "Float64", "0.30000000000000004"],
    [Math.fround(0.1), "Float32", "0.1"],
    [Math.fround(16777217.5), "Float32", "16777218"],
    [Math.fround(3.4028234663852886e38), "Float32", "3.4028235e+38"],
    [Math.fround(1.4e-45), "Float32", "1e-45"],
    [-7, "Int32", "-7"],
    [2 ** 53, "Int64", "9007199254740992"],
    [NaN, "Float64", "nan"],
    [-Infinity, "Float32", "-inf"],
    [1, "Boolean", "true"],
    [0, "Boolean", "false"],
  ];
  for (const [value, type, text] of table) {
    expect(formatNumber(value, null, type), `${String(value)} of ${type}`).toBe(text);
    if (type === "Boolean" || !Number.isFinite(value)) continue;
    const back = type === "Float32" ? Math.fround(Number(text)) : Number(text);
    expect(Object.is(back, value), text).toBe(true);
  }
  for (let step = 0; step < 2000; step += 1) {
    const bits = new DataView(new ArrayBuffer(4));
    bits.setUint32(0, Math.imul(step, 0x9e3779b1) >>> 0);
    const value = bits.getFloat32(0);
    if (!Number.isFinite(value)) continue;
    const text = formatNumber(value, null, "Float32");
    expect(Object.is(Math.fround(Number(text)), value), text).toBe(true);
  }
});

it("shortens arrays", () => {
  expect(formatArray(Float64Array.of(1, 2.25, NaN), 1)).toBe("[1.0, 2.2, nan]");
  expect(formatArray(Float64Array.of(3.5, 0.1), null)).toBe("[3.5, 0.1]");
  expect(formatArray(Float32Array.of(0.1), null, "Float32")).toBe("[0.1]");
  expect(formatArray(Uint8Array.of(1, 0), null, "Boolean")).toBe("[true, false]");
  expect(formatArray(["a", 'b"'], 1)).toBe('["a", "b\\""]');
  expect(formatArray(BigInt64Array.of(9007199254740993n), 1)).toBe("[9007199254740993]");
  expect(formatArray(new Uint8Array(11), 0)).toBe("[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, … 11 elements]");
});

it("writes times with microseconds, before 1970 too", () => {
  expect(formatTime(0, 999_999_999)).toBe("1970-01-01T00:00:00.999999Z");
  expect(formatTime(-1, 1_000)).toBe("1969-12-31T23:59:59.000001Z");
});
