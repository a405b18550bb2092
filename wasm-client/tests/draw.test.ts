/** Curves and axes of displays' plots, by what they draw. */

import { expect, it } from "vitest";

import { draw, rangeOf, type Axis, type Curve, type Drawing } from "../ts/plots/draw.js";
import { Columns } from "../ts/widgets/dense.js";
import { ticksOf } from "../ts/widgets/ticks.js";
import { next, randomNumbers } from "./random.js";

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

const WIDTH = 60;

/** The rows that are filled in each column of pixels; `NaN` is a gap. */
function filled(points: readonly (readonly [x: number, y: number])[], thickness = 1): Set<string> {
  const columns = new Columns(0, WIDTH);
  for (const [x, y] of points) {
    if (Number.isNaN(y)) columns.endLine();
    else columns.add(x, y);
  }
  const pixels = new Set<string>();
  const context = {
    fillRect: (left: number, top: number, width: number, height: number): void => {
      expect([left, top, width, height].every(Number.isInteger)).toBe(true);
      for (let x = left; x < left + width; x += 1) {
        for (let y = top; y < top + height; y += 1) pixels.add(`${String(x)} ${String(y)}`);
      }
    },
  };
  columns.fill(context as CanvasRenderingContext2D, thickness);
  return pixels;
}

it("fills the columns of a curve, forwards, backwards and beyond the edges, and no others", () => {
  const random = randomNumbers(20);
  for (let round = 0; round < 300; round += 1) {
    let x = 20 * random();
    const points = Array.from({ length: 40 }, () => {
      x += (random() - (round % 2 === 0 ? 0 : 0.5)) * (round % 3 === 0 ? 40 : 3);
      return [x, random() < 0.05 ? NaN : Math.round(100 * random())] as const;
    });
    const pixels = filled(points);
    for (const [at, [x1, y1]] of points.entries()) {
      const [x0, y0] = points[at - 1] ?? [NaN, NaN];
      if (Number.isNaN(x0 + y0 + y1)) continue;
      for (let part = 0; part <= 1; part += 0.05) {
        const [column, row] = [Math.round(x0 + (x1 - x0) * part), y0 + (y1 - y0) * part];
        if (column < 1 || column >= WIDTH) continue;
        const around = [-1, 0, 1].flatMap((dx) =>
          Array.from(
            { length: 3 },
            (_, dy) => `${String(column + dx)} ${String(Math.round(row) + dy - 1)}`,
          ),
        );
        const what = `round ${String(round)}, line ${String(at)} at ${String(column)} ${row.toFixed(1)}`;
        expect(
          around.some((pixel) => pixels.has(pixel)),
          what,
        ).toBe(true);
      }
    }
    for (const pixel of pixels) {
      const [column = 0] = pixel.split(" ").map(Number);
      expect(column).toBeGreaterThanOrEqual(0);
      expect(column).toBeLessThanOrEqual(WIDTH);
    }
  }
});

it("fills a curve only where a stroke would be long and goes to and fro a few times", () => {
  const columnsOf = (points: readonly (readonly [number, number])[]): Columns => {
    const columns = new Columns(0, WIDTH);
    for (const [x, y] of points) columns.add(x, y);
    return columns;
  };
  const noise = Array.from({ length: 4 * WIDTH }, (_, at) => [at / 4, 40 * (at % 2)] as const);
  expect(columnsOf(noise).isDense).toBe(true);
  const line = Array.from({ length: 4 * WIDTH }, (_, at) => [at / 4, at / 4] as const);
  expect(columnsOf(line).isDense).toBe(false);
  const scribble = Array.from({ length: 4000 }, (_, at) => [WIDTH * (at % 2), at % 100] as const);
  expect(columnsOf(scribble).isDense).toBe(false);
});

it("fills no area between the passes of a curve that comes back", () => {
  // Along the top, down at the right, back at the bottom.
  const pixels = filled([
    [0, 0],
    [50, 0],
    [50, 80],
    [0, 80],
  ]);
  expect(pixels.has("25 0")).toBe(true);
  expect(pixels.has("25 80")).toBe(true);
  expect(pixels.has("50 40")).toBe(true);
  expect(pixels.has("25 40")).toBe(false);
});
