/** The vectors of formulas, which `client-core` runs natively, give the same through WebAssembly. */

import { readFileSync } from "node:fs";

import { beforeAll, expect, it } from "vitest";

import { Page } from "../ts/store/page.js";
import { loadedPage } from "./fake_relay.js";

type Value =
  | number
  | string
  | readonly Value[]
  | { number: string }
  | { integer: number }
  | { boolean: boolean }
  | { enum: [number, ...string[]] };

interface Shown {
  value: Value;
  severity?: string;
  message?: string;
  time?: [number, number];
  display?: [number, number];
}

interface Case extends Omit<Shown, "value"> {
  formula: string;
  gives?: Value | null;
  error?: string;
}

interface Group {
  name: string;
  inputs?: Record<string, Shown | null>;
  cases: Case[];
}

const vectors = new URL("../../client-core/tests/vectors/formula.json", import.meta.url);
const groups = JSON.parse(readFileSync(vectors, "utf8")) as Group[];

const SEVERITIES = ["NONE", "MINOR", "MAJOR", "INVALID", "UNDEFINED"];
const UTC_OFFSET_SECONDS = 7200;
const NOW_MS = 1_000_000;

const numberOf = (value: Value): number =>
  typeof value === "object" && "number" in value ? Number(value.number) : Number(value);

function stage(page: Page, value: Value): void {
  if (typeof value === "string") page.value_text(value);
  else if (Array.isArray(value)) {
    const list = value as Value[];
    if (typeof list[0] === "string") page.value_texts(list as string[]);
    else page.value_numbers(Float64Array.from(list, numberOf));
  } else if (typeof value === "object" && "integer" in value) {
    page.value_integer(BigInt(value.integer));
  } else if (typeof value === "object" && "boolean" in value) page.value_boolean(value.boolean);
  else if (typeof value === "object" && "enum" in value) {
    const [index, ...labels] = value.enum;
    page.value_enum(index, labels);
  } else page.value_number(numberOf(value));
}

/** The result in the notation of the vectors. */
function result(page: Page): unknown {
  switch (page.kind()) {
    case 0:
      return page.number();
    case 1:
      return { integer: Number(page.integer()) };
    case 2:
      return { boolean: page.number() === 1 };
    case 3:
      return page.text();
    case 4:
      return { enum: [page.number(), ...page.texts()] };
    case 5:
      return [...page.numbers()];
    default:
      return page.texts();
  }
}

/** Numbers are close, because math libraries differ in the last digits. */
function expected(value: Value): unknown {
  if (Array.isArray(value)) return (value as Value[]).map(expected);
  const isNumber = typeof value === "number" || (typeof value === "object" && "number" in value);
  if (!isNumber) return value;
  const number = numberOf(value);
  return Number.isFinite(number) && number !== 0 && !Number.isInteger(number)
    ? (expect.closeTo(number, 9) as unknown)
    : number;
}

beforeAll(loadedPage);

it.each(groups)("$name", ({ cases, inputs = {} }) => {
  for (const { error, formula, gives, message, severity, time } of cases) {
    const page = new Page(0.5);
    const number = page.add_formula(formula);
    expect(number === undefined ? page.error() : undefined, formula).toBe(error);
    if (number === undefined) continue;
    const names = page.names(number);
    page.link(number, Uint32Array.from(names.keys()));
    for (const [input, name] of names.entries()) {
      const given = inputs[name];
      if (given === undefined || given === null) continue;
      stage(page, given.value);
      const [seconds, nanoseconds] = given.time ?? [0, 0];
      const [low, high] = given.display ?? [NaN, NaN];
      const level = SEVERITIES.indexOf(given.severity ?? "NONE");
      page.set_input(input, level, given.message ?? "", seconds, nanoseconds, low, high);
    }
    const isConnected = page.evaluate(number, NOW_MS, UTC_OFFSET_SECONDS);
    expect(isConnected, formula).toBe(gives !== null);
    if (!isConnected) continue;
    const value = gives as Value;
    if (formula === "fac(170)") expect(page.number() / numberOf(value)).toBeCloseTo(1, 12);
    else expect(result(page), formula).toEqual(expected(value));
    expect(SEVERITIES[page.severity()], formula).toBe(severity ?? "NONE");
    expect(page.message(), formula).toBe(message ?? "");
    if (time !== undefined) expect([page.seconds(), page.nanoseconds()], formula).toEqual(time);
    page.free();
  }
});
