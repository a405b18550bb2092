/** The ranges, ticks and labels of axes, for numbers of any magnitude. */

import { describe, expect, it } from "vitest";

import { layOutAxes } from "../ts/widgets/axes.js";
import { endTexts } from "../ts/widgets/end_texts.js";
import { givenRange, positionIn, rangeAround, type Range } from "../ts/widgets/scale.js";
import { choiceTicks, ticksOf, timeTicks } from "../ts/widgets/ticks.js";
import { next, randomNumbers } from "./random.js";

const SEED = 20_260_301;

/** What every axis must keep. */
function expectGood(range: Range, most: number, what: string): void {
  const [low, high] = range;
  expect(Number.isFinite(low) && Number.isFinite(high), what).toBe(true);
  const { at, labels } = ticksOf(range, most);
  expect(at.length, what).toBeLessThanOrEqual(most + 1);
  expect(new Set(labels).size, `${what}: ${labels.join(" ")}`).toBe(labels.length);
  for (const [place, tick] of at.entries()) {
    expect(tick, what).toBeGreaterThanOrEqual(low);
    expect(tick, what).toBeLessThanOrEqual(high);
    expect(Number(labels[place]), what).toBe(tick);
    const before = at[place - 1];
    if (before !== undefined) expect(tick, what).toBeGreaterThan(before);
    const position = positionIn(range, tick);
    expect(position >= 0 && position <= 1, what).toBe(true);
  }
}

describe("an axis", () => {
  it("has right and distinct labels for numbers that others cut or round", () => {
    const labelsOf = (low: number, high: number): readonly string[] =>
      ticksOf(rangeAround(low, high), 4).labels;
    expect(labelsOf(1.2345e-9, 1.2345e-9)).toEqual(["1.2e-9", "1.3e-9"]);
    expect(labelsOf(-12345.678, -12345.678)).toEqual(["-13000", "-12000"]);
    expect(labelsOf(-12345.7, -12345.6)).toEqual(["-12345.70", "-12345.65", "-12345.60"]);
    expect(labelsOf(123456788, 123456790)).toEqual(["123456788", "123456789", "123456790"]);
    expect(labelsOf(0, 65535)).toEqual(["0", "20000", "40000", "60000"]);
    expect(labelsOf(0, 9.6e14)).toEqual(["0", "0.5e15", "1.0e15"]);
    expect(labelsOf(-1.6e-19, 1.6e-19)).toEqual(["-1e-19", "0", "1e-19"]);
  });

  it("ends for a curve that is flat but for one bit, at any magnitude", () => {
    for (let exponent = -1074; exponent < 1024; exponent += 1) {
      for (const sign of [1, -1]) {
        const number = sign * 2 ** exponent;
        const range = rangeAround(
          ...([number, next(number)].sort((a, b) => a - b) as [number, number]),
        );
        expectGood(range, 5, `2^${String(exponent)}`);
      }
    }
    expectGood(rangeAround(1, 1.0000000000000002), 6, "one bit at 1");
    expectGood(rangeAround(-Number.MAX_VALUE, Number.MAX_VALUE), 6, "all numbers");
    expectGood(rangeAround(Number.MAX_VALUE, Number.MAX_VALUE), 6, "the largest");
    expectGood(rangeAround(0, 0), 6, "zero");
    expectGood(rangeAround(0, Number.MIN_VALUE), 6, "the smallest");
    expect(rangeAround(Infinity, -Infinity), "no number").toEqual([0, 1]);
    expect(rangeAround(NaN, NaN)).toEqual([0, 1]);
  });

  it("is good for random ranges, and for those that an application sets", () => {
    const random = randomNumbers(SEED);
    const number = (): number => {
      const some = (random() - 0.5) * 10 ** Math.floor(random() * 640 - 330);
      return random() < 0.3 ? Math.round(some) : some;
    };
    for (let count = 0; count < 1500; count += 1) {
      const one = number();
      const other = random() < 0.3 ? one * (1 + 1e-15 * random()) : number();
      const most = 1 + Math.floor(random() * 12);
      const what = `${String(one)} to ${String(other)}`;
      if (!Number.isFinite(one) || !Number.isFinite(other)) continue;
      expectGood(rangeAround(Math.min(one, other), Math.max(one, other)), most, what);
      expectGood(givenRange([one, other]) ?? [NaN, NaN], most, `given: ${what}`);
    }
  });

  it("ignores a range that isn't one, and orders its ends", () => {
    expect(givenRange(undefined)).toBeUndefined();
    for (const wrong of [NaN, Infinity, -Infinity]) {
      expect(givenRange([wrong, 1])).toBeUndefined();
      expect(givenRange([0, wrong])).toBeUndefined();
    }
    expect(givenRange([10, 0])).toEqual([0, 10]);
    expect(givenRange([5, 5])).toEqual([4.5, 5.5]);
  });

  it("leaves space for the curve, whatever the numbers are", () => {
    const widthOf = (labels: readonly string[]): number =>
      7 * Math.max(...labels.map((label) => label.length));
    const { ticks, widths } = layOutAxes(
      { x: [0, 1] },
      { x: [0, 1], y: [1.2345678901234567e200, next(1.2345678901234567e200)] },
      { width: 200, height: 180 },
      widthOf,
    );
    expect(widths.y).toBeLessThan(100);
    expect(new Set(ticks.y.labels).size).toBe(ticks.y.labels.length);
    expect(ticks.y.labels.length).toBeGreaterThan(0);
  });

  it("has ticks at an enum's indices alone, with distinct labels", () => {
    const ticks = ticksOf(rangeAround(0, 2), 6, true);
    expect(ticks.labels).toEqual(["0", "1", "2"]);
    expect(choiceTicks(ticks, ["Zero", "One", "One"]).labels).toEqual([
      "Zero",
      "One (1)",
      "One (2)",
    ]);
    expect(choiceTicks(ticks, ["", "One"]).labels).toEqual(["0", "One", "2"]);
    expect(ticksOf(rangeAround(0, 1), 6, true).labels, "no tick at 0.5").toEqual(["0", "1"]);
  });
});

describe("a time axis", () => {
  it("has distinct labels from a tenth of a second to a month", () => {
    for (let seconds = 0.1; seconds < 31 * 86_400; seconds *= 1.7) {
      for (const end of [0, 1_772_368_496.789, 253_402_300_799]) {
        const { at, labels } = timeTicks([end - seconds, end], 4);
        expect(at.length).toBeLessThanOrEqual(5);
        expect(new Set(labels).size, `${String(seconds)} s: ${labels.join(" ")}`).toBe(
          labels.length,
        );
      }
    }
    expect(timeTicks([NaN, NaN], 4).at).toEqual([]);
  });
});

describe("the ends of a scale", () => {
  it("are the numbers themselves", () => {
    expect(endTexts([0, 65535])).toEqual(["0", "65535"]);
    expect(endTexts([-12345.678, 0.5])).toEqual(["-12345.68", "0.5"]);
    expect(endTexts([-32768, 4294967295])).toEqual(["-32768", "4294967295"]);
    expect(endTexts([Math.fround(0.1), Math.fround(0.3)])).toEqual(["0.1", "0.3"]);
    expect(endTexts([1, 1.0000000000000002])).toEqual(["1", "1.0000000000000002"]);
    expect(endTexts([1.2345e-9, 1.2346e-9])).toEqual(["1.2345e-9", "1.2346e-9"]);
    const random = randomNumbers(SEED);
    for (let count = 0; count < 2000; count += 1) {
      const low = (random() - 0.5) * 10 ** Math.floor(random() * 600 - 300);
      const high = low + Math.abs(low) * 10 ** Math.floor(random() * 15 - 14);
      const [lowText, highText] = endTexts([low, high]);
      if (low !== high) expect(lowText, `${String(low)} to ${String(high)}`).not.toBe(highText);
      expect(Math.abs(Number(lowText) - low)).toBeLessThanOrEqual(Math.abs(high - low) / 1000);
    }
  });
});
