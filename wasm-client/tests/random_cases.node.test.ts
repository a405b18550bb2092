/** Random selections of random states give what the engine and a plain executor give natively. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";

import { expect, it } from "vitest";

import { loadGraphql } from "../ts/graphql/module.js";
import { Plans, type Operation, type Step } from "../ts/graphql/plans.js";
import type { Shown } from "../ts/pv/objects.js";
import { ALL_PARTS, CONNECTION, planSelection, show, type Plan } from "../ts/pv/plan.js";
import { load, Wasm, type ArrayRow } from "../ts/store/core.js";
import { Slot } from "../ts/store/slot.js";
import { graphqlWasm, wasm as module } from "./golden.js";
import { tagged } from "./vectors.js";

/** `PVWIRE_ORACLE_CASES=100000` runs that many. */
const CASES = process.env.PVWIRE_ORACLE_CASES ?? "5000";

const PROGRAM = path.join(
  process.env.CARGO_TARGET_DIR ?? path.resolve(import.meta.dirname, "../../target"),
  "debug/examples/random_cases",
);

/** What a client receives: a message, that it puts, or the state of the connection to the relay. */
type Input =
  | { readonly frame: string }
  | { readonly put: true }
  | { readonly silentSinceMs: number }
  | { readonly lostMs: number; readonly heardMs: number };

interface Case {
  readonly selection?: string;
  readonly document?: string;
  readonly steps: readonly { readonly inputs: readonly Input[]; readonly expected: unknown }[];
}

/** One PV of a client without connection. */
class Host {
  readonly wasm = new Wasm();
  slot: Slot | undefined;
  /** Parts that changed since the last result. */
  changed = ALL_PARTS;

  take(input: Input): void {
    const { core } = this.wasm;
    if ("frame" in input) {
      this.#apply(Uint8Array.from(Buffer.from(input.frame, "base64")).buffer);
      this.#heard(NaN);
      // The first message is the relay's Hello.
      if (this.slot === undefined) {
        this.slot = new Slot(this.wasm, "PV", this.wasm.add("PV"));
        core.subscribe(Uint32Array.of(this.slot.index), 0, 0, 1, 0, 0, 0, false);
      }
    } else if ("put" in input) {
      core.value_number(1);
      core.stage_put("PV", false, 0, undefined);
      core.put(false);
    } else if ("lostMs" in input) {
      core.relay_lost(input.lostMs, input.heardMs);
    } else {
      this.#heard(input.silentSinceMs);
    }
  }

  #heard(ms: number): void {
    if (!Object.is(this.wasm.heardMs, ms)) this.changed |= CONNECTION;
    this.wasm.heardMs = ms;
  }

  #apply(data: ArrayBuffer): void {
    const applied = this.wasm.apply(data, data.byteLength);
    if (applied === undefined) throw new Error(this.wasm.core.error());
    for (let at = 0; at < applied.arrays.length; at += 4) {
      const [, ...place] = applied.arrays.subarray(at, at + 4) as unknown as ArrayRow;
      this.slot?.keepArray(data, ...place);
    }
  }

  show(plan: Plan, last: Shown): Shown {
    const { columns, core } = this.wasm;
    const slot = this.slot as Slot;
    for (const dirty of this.wasm.dirty()) this.changed |= columns.parts[dirty] as number;
    core.clear_dirty();
    const shown = show(plan, slot, this.changed, last);
    this.changed = 0;
    return shown;
  }
}

function planOf({ document, selection }: Case): Plan {
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

/** The steps of a case whose results differ, as text. */
function differences(of: Case): string[] {
  const host = new Host();
  const plan = planOf(of);
  let last: Shown;
  const found: string[] = [];
  for (const { inputs, expected } of of.steps) {
    for (const input of inputs) host.take(input);
    last = host.show(plan, last);
    const shown = tagged(last);
    if (!same(shown, expected)) {
      found.push(
        `${of.selection ?? of.document ?? ""}\nis  ${JSON.stringify(shown)}\nnot ${JSON.stringify(expected)}`,
      );
    }
  }
  host.wasm.core.free();
  return found;
}

it(`gives equal results for ${CASES} cases`, async () => {
  expect(existsSync(PROGRAM), "cargo build -p pvwire-core --example random_cases").toBe(true);
  await load(module);
  await loadGraphql(graphqlWasm);
  const program = spawn(PROGRAM, [CASES], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => program.once("close", resolve));
  const found: string[] = [];
  let count = 0;
  for await (const line of createInterface({ input: program.stdout })) {
    const of = JSON.parse(line) as Case;
    count += 1;
    found.push(...differences(of));
  }
  expect(await ended, "the engine's results differ from the plain executor's").toBe(0);
  expect(found.slice(0, 5).join("\n\n")).toBe("");
  expect(count).toBe(Number(CASES));
}, 600_000);
