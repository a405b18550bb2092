/** The vectors of formulas, which `client-core` runs natively, give the same through WebAssembly. */

import { readFileSync } from "node:fs";

import { beforeAll, beforeEach, expect, it, vi } from "vitest";

import type { Client } from "../ts/client/client.js";
import { planSelection } from "../ts/pv/plan.js";
import { ValueType } from "../ts/schema.js";
import { inputSelection, Page, readInputs, Result, Summary, summaryOf } from "../ts/store/page.js";
import { loadedPage } from "./fake_relay.js";
import type { Node, Parts } from "./vector_frames.js";
import { clientOf, flush, Relay } from "./vectors.js";

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
  status?: number;
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

/** The value as a relay sends it, and its labels. */
function sent(value: Value): [node: Node, choices?: readonly string[]] {
  if (typeof value === "string") return [{ type: "String", value }];
  if (typeof value === "number") return [{ type: "Float64", value }];
  if (Array.isArray(value)) {
    const list = value as Value[];
    if (typeof list[0] === "string") return [{ type: "String", array: list as string[] }];
    return [{ type: "Float64", array: list.map((one) => String(numberOf(one))) }];
  }
  if ("integer" in value) return [{ type: "Int64", value: String(value.integer) }];
  if ("boolean" in value) return [{ type: "Boolean", value: value.boolean }];
  if ("enum" in value) {
    const [index, ...labels] = value.enum;
    return [{ type: "Enum", value: index }, labels];
  }
  return [{ type: "Float64", value: String(numberOf(value)) }];
}

/** The state of a PV; of one that is not connected without `shown`. */
function partsOf(shown: Shown | null): Parts {
  if (shown === null) return { connection: { state: "disconnected" } };
  const [seconds, nanoseconds] = shown.time ?? [0, 0];
  const { display, message = "", severity = "NONE", status = 0 } = shown;
  const [value, choices = []] = sent(shown.value);
  return {
    connection: { state: "connected" },
    metadata: { type: value.type, choices, ...(display && { display }) },
    value,
    time: { seconds, nanoseconds },
    alarm:
      severity === "UNDEFINED"
        ? null
        : { severity: severity === "NONE" ? "NO_ALARM" : severity, status, message },
  };
}

/** A client with these PVs. */
async function clientWith(inputs: Readonly<Record<string, Shown | null>>): Promise<Client> {
  const relay = new Relay("");
  const client = clientOf(relay);
  await client.ready;
  const states = Object.entries(inputs).map(([name, shown]) => [name, partsOf(shown)] as const);
  relay.change(Object.fromEntries(states));
  for (const name of Object.keys(inputs)) client.pv(name, "{ id }").subscribe(() => undefined);
  await flush();
  return client;
}

/** Reads the inputs of a formula. */
function link(page: Page, formula: number, client: Client): void {
  const names = page.names(formula);
  page.link(formula, Uint32Array.from(names.keys()));
  const inputs = names.flatMap((name, number) => {
    const slot = client.pvs.entries.get(name)?.slot;
    return slot === undefined ? [] : [{ number, slot }];
  });
  readInputs(page, client.pvs.core(), planSelection(inputSelection()).number, inputs);
}

/** The result in the notation of the vectors. */
function result(page: Page): unknown {
  const of = summaryOf(page);
  const [kind, number] = [of(Summary.kind), of(Summary.number)];
  if (kind === Result.integer) return { integer: Number(page.integer()) };
  if (kind === Result.text) return page.text();
  if (kind === Result.numbers) return [...page.numbers()];
  if (kind !== Result.number) return page.texts();
  switch (of(Summary.type)) {
    case ValueType.Int64:
      return { integer: number };
    case ValueType.Boolean:
      return { boolean: number === 1 };
    case ValueType.Enum:
      return { enum: [number, ...page.texts()] };
    default:
      return number;
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

beforeEach(() => {
  vi.useFakeTimers();
  return () => {
    vi.useRealTimers();
  };
});

it.each(groups)("$name", async ({ cases, inputs = {} }) => {
  const client = await clientWith(inputs);
  for (const { error, formula, gives, message, severity, status, time } of cases) {
    const page = new Page(0.5);
    const number = page.add_formula(formula);
    expect(number === undefined ? page.error() : undefined, formula).toBe(error);
    if (number === undefined) continue;
    link(page, number, client);
    const hasResult = (page.evaluate(number, NOW_MS, UTC_OFFSET_SECONDS) & 2) !== 0;
    expect(hasResult, formula).toBe(gives !== null);
    if (!hasResult) continue;
    const value = gives as Value;
    const of = summaryOf(page);
    if (formula === "fac(170)") expect(of(Summary.number) / numberOf(value)).toBeCloseTo(1, 12);
    else expect(result(page), formula).toEqual(expected(value));
    expect(SEVERITIES[of(Summary.severity)], formula).toBe(severity ?? "NONE");
    if (severity !== "UNDEFINED") expect(of(Summary.status), formula).toBe(status ?? 0);
    expect(page.message(), formula).toBe(message ?? "");
    const stamp = [of(Summary.seconds), of(Summary.nanoseconds)];
    if (time !== undefined) expect(stamp, formula).toEqual(time);
    page.free();
  }
  client.dispose();
});
