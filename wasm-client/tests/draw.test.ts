/** Curves and axes of displays' plots, by what they draw. */

import { expect, it } from "vitest";

import { draw, rangeOf, type Axis, type Curve, type Drawing } from "../ts/plots/draw.js";
import { ticksOf } from "../ts/widgets/ticks.js";
import { next } from "./random.js";

const CURVE: Curve = {
  name: "A",
  x: [0, 1, 2, 3],
  y: [],
  axis: 0,
  colour: "curve",
  width: 1,
  dash: [],
  kind: "line",
  point: 0,
};

const AXIS: Axis = {
  title: "",
  range: undefined,
  isLog: false,
  withGrid: false,
  isShown: false,
  colour: "",
  onRight: false,
};

/** The places to which the curves' pen is moved, and to which it draws. */
function penOf(drawing: Pick<Drawing, "curves" | "y">): string[] {
  const pen: string[] = [];
  const state = { strokeStyle: "" };
  const note =
    (kind: string) =>
    (x: number, y: number): void => {
      if (state.strokeStyle === "curve") pen.push(`${kind} ${x.toFixed(0)} ${y.toFixed(0)}`);
    };
  const calls = { moveTo: note("from"), lineTo: note("to"), measureText: () => ({ width: 10 }) };
  const context = new Proxy(Object.assign(state, calls), {
    get: (known, name): unknown => Reflect.get(known, name) ?? (() => undefined),
  }) as unknown as CanvasRenderingContext2D;
  const look = { title: "", titleFont: "", font: "", fontSize: 10, ink: "", grid: "" };
  draw(context, 314, 210, { ...look, withLegend: false, x: AXIS, ...drawing });
  return pen;
}

it("has a range that ticks can divide for a curve of a few neighbouring numbers", () => {
  for (let exponent = -1074; exponent < 1024; exponent += 7) {
    for (const sign of [1, -1]) {
      for (const ulps of [1, 2, 5, 20]) {
        const one = sign * 1.7 * 2 ** exponent;
        let other = one;
        for (let count = 0; count < ulps; count += 1) other = next(other);
        for (const [of, isLog] of [
          ["x", false],
          ["y", false],
          ["y", true],
        ] as const) {
          const curve = { ...CURVE, x: [one, other], y: [one, other] };
          const range = rangeOf({ ...AXIS, isLog }, [curve], of);
          const { at } = ticksOf(range, 50);
          const what = `${String(ulps)} bits at ${String(one)}, ${of}`;
          expect(range.every(Number.isFinite), what).toBe(true);
          expect(new Set(at).size, what).toBe(at.length);
          expect(at.length, what).toBeLessThanOrEqual(51);
        }
      }
    }
  }
  const large = { ...CURVE, x: [2e16, 2e16 + 4] };
  const [low, high] = rangeOf(AXIS, [large], "x");
  expect(high - low).toBeGreaterThan(200);
});

it("draws no line through values that a logarithmic axis has no place for", () => {
  const y = [{ ...AXIS, isLog: true, range: [1, 100] as const }];
  for (const without of [0, -5, NaN, null]) {
    for (const kind of ["line", "step"] as const) {
      const pen = penOf({ y, curves: [{ ...CURVE, kind, y: [10, without, 10, 100] }] });
      expect(
        pen.filter((each) => each.startsWith("from")),
        `${kind} over ${String(without)}`,
      ).toEqual(["from 6 106", "from 206 106"]);
    }
  }
  const pen = penOf({ y: [AXIS], curves: [{ ...CURVE, y: [1, 0, -1, 1] }] });
  expect(pen.filter((each) => each.startsWith("from"))).toHaveLength(1);
});
