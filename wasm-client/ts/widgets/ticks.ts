/** The ticks of an axis with their labels. A label is exactly the number of its tick. */

import type { Range } from "./scale.js";

export interface Ticks {
  readonly at: readonly number[];
  readonly labels: readonly string[];
}

/** Labels with more digits than this have an exponent if that is shorter. */
const PLAIN_DIGITS = 8;

/** At most `most` intervals; ticks at integers only for whole numbers. */
export function ticksOf(range: Range, most: number, isWhole = false): Ticks {
  const [low, high] = range;
  const { exponent, factor } = stepOf((high / 2 - low / 2) * (2 / Math.max(1, most)), isWhole);
  // A tick is an integer times a power of ten: read as text, it is the nearest double.
  const numberOf = (integer: number): number => Number(`${String(integer)}e${String(exponent)}`);
  const step = numberOf(factor);
  const integers: number[] = [];
  for (let at = Math.floor(low / step); at <= Math.ceil(high / step); at += 1) {
    const number = numberOf(at * factor);
    // Not "-0".
    if (number >= low && number <= high) integers.push(at * factor || 0);
  }
  return { at: integers.map(numberOf), labels: labelsOf(integers, exponent) };
}

/** The smallest of 1, 2 and 5 times a power of ten that is not below `least`. */
function stepOf(least: number, isWhole: boolean): { factor: number; exponent: number } {
  if (isWhole && least <= 1) return { factor: 1, exponent: 0 };
  const exponent = Math.floor(Math.log10(least));
  const factor = [1, 2, 5].find((some) => Number(`${String(some)}e${String(exponent)}`) >= least);
  return factor === undefined ? { factor: 1, exponent: exponent + 1 } : { factor, exponent };
}

/** All labels have the same number of decimals, and the same exponent. */
function labelsOf(integers: readonly number[], exponent: number): string[] {
  const longest = Math.max(...integers.map((integer) => String(Math.abs(integer)).length));
  const common = longest - 1 + exponent;
  const plain = integers.map((integer) => shifted(integer, exponent));
  const scientific = integers.map((integer) =>
    integer === 0 ? "0" : `${shifted(integer, 1 - longest)}e${String(common)}`,
  );
  const lengthOf = (labels: readonly string[]): number =>
    Math.max(...labels.map((label) => label.length));
  return lengthOf(plain) > PLAIN_DIGITS && lengthOf(scientific) < lengthOf(plain)
    ? scientific
    : plain;
}

/** An integer times a power of ten, as decimals. */
function shifted(integer: number, exponent: number): string {
  if (integer === 0) return "0";
  const sign = integer < 0 ? "-" : "";
  const digits = String(Math.abs(integer));
  if (exponent >= 0) return sign + digits + "0".repeat(exponent);
  const padded = digits.padStart(1 - exponent, "0");
  return `${sign}${padded.slice(0, exponent)}.${padded.slice(exponent)}`;
}

/** The labels of an enum's indices, each a different one. */
export function choiceTicks({ at, labels }: Ticks, choices: readonly string[]): Ticks {
  const labelOf = (index: number, plain: string): string => {
    const label = choices[index] ?? "";
    if (label === "") return plain;
    return choices.indexOf(label) === choices.lastIndexOf(label) ? label : `${label} (${plain})`;
  };
  return { at, labels: at.map((index, place) => labelOf(index, labels[place] ?? "")) };
}

const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];

/** Intervals of time that people count in, in seconds. */
const TIME_STEPS = [
  ...[-3, -2, -1].flatMap((exponent) => [1, 2, 5].map((some) => some * 10 ** exponent)),
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 7, 14, 28].map((days) => days * DAY),
];

/** Ticks at round times of the user's time zone, or of UTC; the range is in seconds past the POSIX epoch. */
export function timeTicks([from, to]: Range, most: number, isUtc = false): Ticks {
  const least = (to - from) / Math.max(1, most);
  const step = TIME_STEPS.find((some) => some >= least) ?? TIME_STEPS.at(-1) ?? DAY;
  const zone = zoneAt(from, isUtc);
  const at: number[] = [];
  for (let count = Math.ceil((from - zone) / step); ; count += 1) {
    // Hours are round after a change of daylight saving time too; days and parts of them aren't.
    const tick = step > HOUR ? instantOf(count * step, zone, isUtc) : count * step + zone;
    if (!(tick <= to)) break;
    at.push(tick);
  }
  const withDate = to - from > DAY / 2;
  return { at, labels: at.map((time) => timeLabel(time - zoneAt(time, isUtc), step, withDate)) };
}

/** From the time that the axis shows to UTC at an instant, in seconds. */
const zoneAt = (instant: number, isUtc: boolean): number =>
  isUtc ? 0 : new Date(instant * 1000).getTimezoneOffset() * MINUTE || 0;

/** The instant at which clocks show a time; the next one if they skip it. */
function instantOf(local: number, zone: number, isUtc: boolean): number {
  const own = zoneAt(local + zone, isUtc);
  return local + Math.max(own, zoneAt(local + own, isUtc));
}

/** `time` is what clocks show, as if it were UTC. */
function timeLabel(time: number, step: number, withDate: boolean): string {
  const text = new Date(Math.round(time * 1000)).toISOString();
  const day = text.slice(5, 10);
  if (step >= DAY) return day;
  if (withDate) return `${day} ${text.slice(11, 16)}`;
  return text.slice(11, step >= 1 ? 19 : 23);
}
