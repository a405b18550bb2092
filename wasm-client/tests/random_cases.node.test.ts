/** Random selections of random states give what the engine and a plain executor give natively. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";

import { expect, it } from "vitest";

import { loadGraphql } from "../ts/graphql/module.js";
import { Plans, type Operation, type Step } from "../ts/graphql/plans.js";
import type { Shown } from "../ts/pv/objects.js";
import { ALL_PARTS, planSelection, show, type Plan } from "../ts/pv/plan.js";
import { load, Wasm, type ArrayRow } from "../ts/store/core.js";
import { ALWAYS, EXECUTED, NEW, WATCHER } from "../ts/store/results.js";
import { Slot } from "../ts/store/slot.js";
import { graphqlWasm, wasm as module } from "./golden.js";
import { tagged } from "./vectors.js";

/** `PVWIRE_ORACLE_CASES=100000` runs that many. A case is one PV's states, read with one selection. */
const CASES = process.env.PVWIRE_ORACLE_CASES ?? "2000";

const PROGRAM = path.join(
  process.env.CARGO_TARGET_DIR ?? path.resolve(import.meta.dirname, "../../target"),
  "debug/examples/random_cases",
);

/** What a client receives: a message, that it puts, or the state of the connection to the relay. */
type Input =
  | { readonly frame: string }
  | { readonly put: string }
  | { readonly silentSinceMs: number }
  | { readonly lostMs: number; readonly heardMs: number };

interface Selected {
  readonly selection?: string;
  readonly document?: string;
}

/** PVs of one client, each of which is read with each selection. */
interface Group {
  readonly number: number;
  readonly names: readonly string[];
  readonly selections: readonly Selected[];
  readonly steps: readonly {
    readonly inputs: readonly Input[];
    /** For each PV, the results of the selections; null for the result of the step before. */
    readonly expected: readonly unknown[];
  }[];
}

/** A client without connection. */
class Host {
  readonly wasm = new Wasm();
  readonly #names: readonly string[];
  #slots: readonly Slot[] = [];

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  take(input: Input): void {
    const { core } = this.wasm;
    if ("frame" in input) {
      this.#apply(Uint8Array.from(Buffer.from(input.frame, "base64")).buffer);
      this.#setLastHeard(NaN);
      // The first message is the relay's Hello.
      if (this.#slots.length === 0) this.#subscribe();
    } else if ("put" in input) {
      core.value_number(1);
      core.stage_put(input.put, false, 0, undefined);
      core.put(false, false);
    } else if ("lostMs" in input) {
      core.relay_lost(input.lostMs, input.heardMs);
    } else {
      this.#setLastHeard(input.silentSinceMs);
    }
  }

  #subscribe(): void {
    const { core } = this.wasm;
    this.#slots = this.#names.map((name) => new Slot(this.wasm, name, this.wasm.add(name)));
    const indices = Uint32Array.from(this.#slots, ({ index }) => index);
    core.subscribe(indices, 0, 0, 1, 0, 0, 0, false, false);
  }

  #setLastHeard(ms: number): void {
    if (Object.is(this.wasm.heardMs, ms)) return;
    for (const { index } of this.#slots) this.wasm.core.touch(index);
    this.wasm.heardMs = ms;
  }

  #apply(data: ArrayBuffer): void {
    const applied = this.wasm.apply(data, data.byteLength);
    if (applied === undefined) throw new Error(this.wasm.core.error());
    for (let at = 0; at < applied.arrays.length; at += 4) {
      const [index, ...place] = applied.arrays.subarray(at, at + 4) as unknown as ArrayRow;
      this.#slots.find((slot) => slot.index === index)?.keepArray(data, ...place);
    }
  }

  /** The results of each PV with each plan, from those of the step before, as a flush makes them. */
  show(plans: readonly Plan[], last: readonly Shown[]): Shown[] {
    const { core, heardMs, results } = this.wasm;
    if (last.length === 0) {
      const watcher = (plan: Plan, number: number): number[] => [
        number,
        (plan.number << 4) | plan.needs,
        ALWAYS | NEW | 0xff,
      ];
      this.#slots.forEach(({ index }, at) => {
        const watchers = plans.map((plan, nth) => watcher(plan, at * plans.length + nth));
        core.watch(index, Uint32Array.from(watchers.flat()));
      });
      results.flush(heardMs, []);
      return this.#slots.flatMap((slot) =>
        plans.map((plan) => show(plan, slot, ALL_PARTS, undefined)),
      );
    }
    const shown = [...last];
    const make = (number: number, parts: number): void => {
      const [plan, slot] = this.#watched(plans, number);
      shown[number] = plan.show(slot, results, parts, last[number]);
    };
    const later: [number, number][] = [];
    const changed = results.flush(heardMs, []);
    for (let at = 0; at < changed.length; at += 2) {
      const [flags, parts] = [changed[at] as number, changed[at + 1] as number];
      if (flags >= EXECUTED) make(flags & WATCHER, parts);
      else later.push([flags & WATCHER, parts]);
    }
    for (const [number, parts] of later) results.add(...this.#watched(plans, number), parts);
    results.run(heardMs);
    for (const [number, parts] of later) make(number, parts);
    return shown;
  }

  #watched(plans: readonly Plan[], number: number): [Plan, Slot] {
    const slot = this.#slots[Math.floor(number / plans.length)] as Slot;
    return [plans[number % plans.length] as Plan, slot];
  }
}

function planOf({ document, selection }: Selected): Plan {
  if (document === undefined) return planSelection(selection);
  const plans = new Plans();
  const [step] = plans.steps(plans.operation({ query: document }) as Operation);
  return plans.channel(step as Step);
}

/** Whether two results are the same; the order of an object's keys has no meaning. */
function same(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) {
    return Object.is(one, other);
  }
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) =>
      same((one as Record<string, unknown>)[key], (other as Record<string, unknown>)[key]),
    )
  );
}

/** The cases of a group whose results differ, as text. */
function differences({ names, number, selections, steps }: Group): string[] {
  const host = new Host(names);
  const plans = selections.map(planOf);
  let shown: Shown[] = [];
  let results: unknown[] = [];
  const found: string[] = [];
  for (const [step, { expected, inputs }] of steps.entries()) {
    for (const input of inputs) host.take(input);
    const last = shown;
    shown = host.show(plans, last);
    results = expected.map((result, at) => result ?? results[at]);
    for (const [at, one] of shown.entries()) {
      // The same object, of which nothing is expected to have changed.
      if (one === last[at] && expected[at] === null) continue;
      const given = tagged(one);
      if (same(given, results[at])) continue;
      const pv = names[Math.floor(at / plans.length)] ?? "";
      const { document, selection } = selections[at % plans.length] ?? {};
      found.push(
        `${pv} in step ${String(step)} of group ${String(number)}: ${selection ?? document ?? ""}
is  ${JSON.stringify(given)}\nnot ${JSON.stringify(results[at])}`,
      );
    }
  }
  host.wasm.core.free();
  return found;
}

it(`gives equal results for ${CASES} cases`, async () => {
  expect(existsSync(PROGRAM), "cargo build -p pvwire-oracle --example random_cases").toBe(true);
  await load(module);
  await loadGraphql(graphqlWasm);
  const program = spawn(PROGRAM, [CASES], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => program.once("close", resolve));
  const found: string[] = [];
  let count = 0;
  for await (const line of createInterface({ input: program.stdout })) {
    const group = JSON.parse(line) as Group;
    count += group.names.length * group.selections.length;
    found.push(...differences(group));
  }
  expect(await ended, "the engine's results differ from the plain executor's").toBe(0);
  expect(found.slice(0, 5).join("\n\n")).toBe("");
  expect(count).toBeGreaterThanOrEqual(Number(CASES));
}, 600_000);
