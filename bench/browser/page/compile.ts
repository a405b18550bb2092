/** Time that a selection takes to be compiled, when the module is loaded. */

import { createClient } from "pvwire";

import { compile, initSync } from "../../../wasm-client/pkg/pvwire_wasm.js";
import moduleUrl from "../../../wasm-client/pkg/pvwire_wasm_bg.wasm?url";
import { CELL, FULL, LIGHT, pvNames } from "../pvs";

const SELECTIONS = [
  LIGHT,
  FULL,
  CELL,
  "{ value { number } }",
  "{ value { text } display { units precision } }",
  "{ id value { exact array } time { seconds nanoseconds } }",
  "{ connection { state connected since reason } }",
  "{ value { number } display { form controlRange { min max } displayRange { min max } } }",
  "{ value { string(units: true) } status { quality message alarmStatus mutable } }",
  "{ reading: value { number } set: value { text } skips { behind paced filter } }",
];

/** A selection is compiled this often in a pass, each time with another text: the clock is coarse. */
const TIMES = 400;
const PASSES = 10;

export interface CompileTimes {
  readonly compile_us: number;
  readonly compile_longest_us: number;
  readonly compile_wasm_us: number;
  readonly known_us: number;
}

/** Median and longest time over the selections: by the package, and by the module alone. */
export async function compileTimes(url: string): Promise<CompileTimes> {
  const client = createClient({ url });
  const [name = ""] = pvNames();
  await new Promise<void>((resolve) => {
    client.pv(name, LIGHT).subscribe(resolve);
  });
  const whole = timed((text) => client.pv(name, text));
  const known = timed(() => client.pv(name, FULL));
  client.dispose();
  initSync(await (await fetch(moduleUrl)).arrayBuffer());
  const inModule = timed(compile);
  return {
    compile_us: middle(whole),
    compile_longest_us: Math.max(...whole),
    compile_wasm_us: middle(inModule),
    known_us: middle(known),
  };
}

let kept: unknown;
let count = 0;

/** Microseconds for each selection, the least of the passes: what others on the machine do only adds. */
function timed(make: (text: string) => unknown): number[] {
  const least = SELECTIONS.map(() => Infinity);
  for (let pass = 0; pass < PASSES; pass += 1) {
    for (const [at, selection] of SELECTIONS.entries()) {
      const texts = Array.from({ length: TIMES }, () => another(selection));
      const began = performance.now();
      for (const text of texts) kept = make(text);
      const us = (1000 * (performance.now() - began)) / TIMES;
      least[at] = Math.min(least[at] ?? us, us);
    }
  }
  if (kept === undefined) throw new Error("nothing was compiled");
  return least;
}

/** The selection with one field more, which no other text has. */
const another = (selection: string): string =>
  selection.replace("{", `{ n${String((count += 1))}: id`);

const middle = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? NaN;
