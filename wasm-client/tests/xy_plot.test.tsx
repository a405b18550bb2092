/** PVs against another one: arrays as they are now, numbers over the time of the page. */

import { expect, it } from "vitest";

import { TimeRangeProvider, XyPlot, type TimeRange } from "../ts/plots/index.js";
import { traceOf } from "../ts/plots/traces.js";
import { pairsOf, pointText } from "../ts/plots/xy.js";
import { nearestTo, partsBetween, placeBeside, rangeIn, zoomedTo } from "../ts/plots/xy_zoom.js";
import "../ts/plots/plots.css";
import { eachWithWidgetPage, page, relay, show, until } from "./widget_page.js";

eachWithWidgetPage();

const cell = (name: string, column: string): string =>
  page.querySelector(`[data-trace="${name}"] [data-column="${column}"]`)?.textContent ?? "";

const picture = (): string => page.querySelector("canvas")?.getAttribute("aria-label") ?? "";

const steps = (...each: readonly (readonly [at: number, value: number])[]) => ({
  at: Float64Array.from(each, ([at]) => at),
  value: Float64Array.from(each, ([, value]) => value),
});

it("has a pair for each change, one for both within a scan, and one gap where either is missing", () => {
  const x = steps([0, 1], [10, 2], [20, 3], [30, NaN], [40, 4]);
  const y = steps([5, 10], [10.004, 20], [20.5, 30], [35, NaN], [45, 50]);
  const { at, x: xs, y: ys } = pairsOf(x, y, { from: 6, to: 50 });
  expect(at).toEqual([6, 10.004, 20, 20.5, 30, 45]);
  expect(xs).toEqual([1, 2, 3, 3, NaN, 4]);
  expect(ys).toEqual([10, 20, 20, 30, NaN, 50]);
  // The value that holds isn't known before the first one.
  expect(pairsOf(x, y, { from: -5, to: 4 })).toEqual({ x: [], y: [], at: [] });
});

it("draws arrays element by element and says which have another length, or aren't arrays", async () => {
  relay.set("X", { value: Float64Array.of(1, 2, 3), units: "mm" });
  relay.set("Y", { value: Float64Array.of(10, 20, 40), units: "mA" });
  relay.set("SHORT", { value: Int32Array.of(7, 8) });
  relay.set("ONE", 5);
  show(<XyPlot xName="X" names={["Y", "SHORT", "ONE", "X"]} />);
  await until(() => {
    expect(picture()).toBe(
      "Y against X: 3 points, horizontally 1 to 3 mm, vertically 10 to 40 mA. " +
        "SHORT against X: 2 points, horizontally 1 to 2 mm, vertically 7 to 8",
    );
  });
  expect([cell("X", "low"), cell("X", "high")]).toEqual(["1 mm", "3 mm"]);
  expect(cell("SHORT", "state")).toContain("2 elements, and X has 3: the first 2 are drawn");
  expect(cell("ONE", "state")).toContain("one number, and X is an array");
  relay.set("Y", { value: Float64Array.of(10, 20, 50) });
  await until(() => {
    expect(picture()).toContain("vertically 10 to 50 mA");
  });
  // An old array isn't shown as the present one.
  relay.set("X", { state: "disconnected" });
  await until(() => {
    expect(picture()).toBe("Nothing to draw against X");
    expect(cell("X", "state")).toContain("Disconnected");
    expect(cell("X", "high")).toBe("–");
  });
});

it("draws an array over the index of its elements", async () => {
  relay.set("Y", { value: Float64Array.of(3, NaN, 1) });
  relay.set("ONE", 5);
  show(<XyPlot xName="#" names={["Y", "ONE"]} />);
  await until(() => {
    expect(picture()).toBe(
      "Y against the index of the element: 2 points, horizontally 0 to 2, vertically 1 to 3",
    );
    expect(cell("ONE", "state")).toContain("one number, which has no other elements");
  });
});

it("draws two numbers as they were at the same time, in a past interval too", async () => {
  const now = Date.now();
  for (const [at, x, y] of [
    [4000, 1, 10],
    [2000, 2, 20],
    [1, 3, 30],
  ] as const) {
    relay.set("P", { value: x, timeMs: now - 1000 * at, units: "mA" });
    relay.set("Q", { value: y, timeMs: now - 1000 * at, units: "V" });
  }
  const range: TimeRange = { kind: "past", fromMs: now - 4_500_000, toMs: now - 1_000_000 };
  const plot = <XyPlot xName="P" names={["Q", "WAVE"]} />;
  show(<TimeRangeProvider range={range}>{plot}</TimeRangeProvider>);
  await until(() => {
    expect(picture()).toBe("Q against P: 2 points, horizontally 1 to 2 mA, vertically 10 to 20 V");
    expect(cell("P", "at")).toBe("2 mA");
    expect(cell("WAVE", "state")).toContain("the relay keeps no past of arrays");
  });
  show(<TimeRangeProvider range={{ kind: "live", seconds: 9000 }}>{plot}</TimeRangeProvider>);
  await until(() => {
    expect(picture()).toContain("horizontally 1 to 3 mA, vertically 10 to 30 V; now 3 mA and 30 V");
    expect(cell("WAVE", "state")).toContain("an array, and P is one number");
  });
  // No pair is the present one while either PV is silent.
  relay.set("P", { unresponsive: true });
  await until(() => {
    expect(picture()).toContain("vertically 10 to 30 V");
    expect(picture()).not.toContain("now");
  });
});

const PLACED = {
  room: { left: 100, right: 300, top: 10, bottom: 110 },
  x: { range: [0, 10], isLog: false },
  y: [
    { range: [0, 100], isLog: false, scale: "units mA", index: 0 },
    { range: [1, 10_000], isLog: true, scale: "units V", index: 2 },
  ],
} as const;

it("zooms each axis to the part that is chosen, and finds the nearest point that is shown", () => {
  // The left half, and of a logarithmic axis the upper half of its powers.
  const parts = partsBetween(PLACED, { x: 100, y: 60 }, { x: 200, y: 0 });
  expect(parts).toEqual({ x: [0, 0.5], y: [0.5, 1] });
  const zoom = zoomedTo(PLACED, [0, 0.5], [0.5, 1], []);
  expect(zoom).toEqual([0, 5, 50, 100, NaN, NaN, 100, 10_000]);
  expect([0, 1, 2, 3].map((axis) => rangeIn(zoom, axis))).toEqual([
    [0, 5],
    [50, 100],
    undefined,
    [100, 10_000],
  ]);
  // A drag to one side, and a click.
  expect(partsBetween(PLACED, { x: 150, y: 50 }, { x: 250, y: 52 })?.y).toEqual([0, 1]);
  expect(partsBetween(PLACED, { x: 150, y: 50 }, { x: 152, y: 52 })).toBeUndefined();
  // As far as doubles go: no axis has both ends alike.
  const deep = zoomedTo(PLACED, [0.5, 0.5], [0.5, 0.5], undefined);
  expect(rangeIn(deep, 0)?.[0]).toBeLessThan(rangeIn(deep, 0)?.[1] ?? 0);

  const trace = { ...traceOf("A", 0, false, undefined, undefined), scale: "units mA" };
  const points = { x: [1, 5, 20, 9], y: [10, NaN, 30, 90], at: undefined };
  const curves = [{ trace, points, isNow: false }];
  expect(nearestTo(PLACED, curves, { x: 290, y: 100 })).toEqual({ curve: 0, row: 3 });
  expect(nearestTo(PLACED, curves, undefined)).toBeUndefined();
  // Points without a place are passed over.
  expect(placeBeside(PLACED, curves, { curve: 0, row: 0 }, 1)).toEqual({ x: 280, y: 20 });
  expect(placeBeside(PLACED, curves, { curve: 0, row: 3 }, 1)).toBeUndefined();
  expect(pointText(undefined, { trace, points, isNow: false }, 3, true)).toBe("A 90 · element 3");
});
