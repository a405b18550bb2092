/** Numbers are formatted as by C's printf, and all texts by the module. */

import { expect, it } from "vitest";

import { createFakeRelay } from "../ts/testing/index.js";
import type { FakePv } from "../ts/testing/index.js";
import type { PvType } from "../ts/types.js";
import { wasm } from "./golden.js";

interface Shown {
  readonly value: { readonly string: string };
  readonly time: { readonly datetime: string };
}

/** What the package shows of PVs in these states. */
async function shown(states: readonly FakePv[]): Promise<Shown[]> {
  const names = states.map((_, at) => `PV${String(at)}`);
  const pvs = Object.fromEntries(names.map((name, at) => [name, states[at] as FakePv]));
  const client = createFakeRelay({ pvs, ...(wasm && { wasm }) }).client();
  const selection = "{ value { string } time { datetime } }";
  const results = await client.get<Shown>(names, { selection });
  client.dispose();
  return results.map((result) => {
    if (!result.ok) throw result.error;
    return result.data;
  });
}

const strings = async (states: readonly FakePv[]): Promise<string[]> =>
  (await shown(states)).map(({ value }) => value.string);

it("rounds exact ties to even, as toFixed does not", async () => {
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
  expect(await strings(table.map(([value, precision]) => ({ value, precision })))).toEqual(
    table.map(([, , text]) => text),
  );
});

it("without a precision gives the shortest text that reads back", async () => {
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
  const texts = await strings(table.map(([value, type]) => ({ value, type })));
  expect(texts).toEqual(table.map(([, , text]) => text));
  for (const [at, [value, type]] of table.entries()) {
    if (type === "Boolean" || !Number.isFinite(value)) continue;
    const back = type === "Float32" ? Math.fround(Number(texts[at])) : Number(texts[at]);
    expect(Object.is(back, value), texts[at]).toBe(true);
  }
  const floats = Array.from({ length: 2000 }, (_, step) => {
    const bits = new DataView(new ArrayBuffer(4));
    bits.setUint32(0, Math.imul(step, 0x9e3779b1) >>> 0);
    return bits.getFloat32(0);
  }).filter(Number.isFinite);
  const shortest = await strings(floats.map((value) => ({ value, type: "Float32" })));
  for (const [at, value] of floats.entries()) {
    expect(Object.is(Math.fround(Number(shortest[at])), value), shortest[at]).toBe(true);
  }
});

it("shortens arrays", async () => {
  const table: [FakePv, string][] = [
    [{ value: Float64Array.of(1, 2.25, NaN), precision: 1 }, "[1.0, 2.2, nan]"],
    [{ value: Float64Array.of(3.5, 0.1) }, "[3.5, 0.1]"],
    [{ value: Float32Array.of(0.1) }, "[0.1]"],
    [{ value: Uint8Array.of(1, 0), type: "Boolean" }, "[true, false]"],
    [{ value: ["a", 'b"'] }, '["a", "b\\""]'],
    [{ value: BigInt64Array.of(9007199254740993n), precision: 1 }, "[9007199254740993]"],
    [{ value: new Uint8Array(11), precision: 0 }, "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, … 11 elements]"],
  ];
  expect(await strings(table.map(([state]) => state))).toEqual(table.map(([, text]) => text));
});

it("writes times with microseconds, before 1970 too", async () => {
  const times = await shown([
    { value: 1, timeMs: 999.999 },
    { value: 1, timeMs: -999.999 },
  ]);
  expect(times.map(({ time }) => time.datetime)).toEqual([
    "1970-01-01T00:00:00.999999Z",
    "1969-12-31T23:59:59.000001Z",
  ]);
});
