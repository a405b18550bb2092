/** Ticks of days in a time zone whose clocks change. */

import { afterEach, beforeEach, expect, it } from "vitest";

import { timeTicks } from "../ts/widgets/ticks.js";

const before = process.env.TZ;

beforeEach(() => {
  process.env.TZ = "Europe/Berlin";
});

afterEach(() => {
  if (before === undefined) delete process.env.TZ;
  else process.env.TZ = before;
});

const seconds = (local: string): number => new Date(local).getTime() / 1000;

it("has each day once, at its midnight, after the clocks were changed", () => {
  for (const [from, to, labels] of [
    ["2026-10-23T12:00", "2026-10-27T12:00", ["10-24", "10-25", "10-26", "10-27"]],
    ["2026-03-27T12:00", "2026-03-31T12:00", ["03-28", "03-29", "03-30", "03-31"]],
  ] as const) {
    const ticks = timeTicks([seconds(from), seconds(to)], 5);
    expect(ticks.labels).toEqual(labels);
    expect(ticks.at).toEqual(labels.map((day) => seconds(`2026-${day}T00:00`)));
  }
});

it("has the same ticks in any time zone in UTC", () => {
  const [from, to] = ["2026-10-24T12:00Z", "2026-10-26T12:00Z"].map(seconds);
  const ticks = timeTicks([from ?? 0, to ?? 0], 4, true);
  expect(ticks.labels).toEqual(
    ["10-24 12:00", "10-25 00:00", "10-25 12:00", "10-26 00:00"].concat("10-26 12:00"),
  );
  expect(ticks.at[1]).toBe(seconds("2026-10-25T00:00Z"));
});

it("has round hours on both sides of a change", () => {
  const hoursOf = (from: string, to: string, most: number): string[] =>
    timeTicks([seconds(from), seconds(to)], most).labels.map(
      (label) => /\d\d:\d\d/.exec(label)?.[0] ?? "",
    );
  const half = ["00:00", "12:00", "00:00", "12:00"];
  expect(hoursOf("2026-10-24T23:00", "2026-10-26T13:00", 4)).toEqual(half);
  expect(hoursOf("2026-03-28T23:00", "2026-03-30T13:00", 4)).toEqual(half);
  // Clocks skip 02:00.
  const spring = ["22:00", "00:00", "03:00", "04:00", "06:00", "08:00"];
  expect(hoursOf("2026-03-28T22:00", "2026-03-29T08:00", 5)).toEqual(spring);
});
