/**
 * Reads a selection of every changed PV, once with the package's readers and once with the engine in
 * WebAssembly, which executes the selection for all of them in one call. Neither has listeners, and
 * both give the same objects.
 */

import { constants, Engine, initSync } from "bench-engine/pvwire_bench_engine.js";
import engineUrl from "bench-engine/pvwire_bench_engine_bg.wasm?url";
import { ALL_PARTS, planSelection, View } from "../../../wasm-client/ts/pv/fields";
import { Answered, compileSelection, load, Wasm } from "../../../wasm-client/ts/store/core";
import { Slot } from "../../../wasm-client/ts/store/slot";
import { FULL, LIGHT, PVS } from "../pvs";
import type { Recording } from "./recording";

/** Takes a frame and reads what it changed. */
export type Read = (frame: number) => void;

export const READS = {
  readers_light_ns: { selection: LIGHT, isEngine: false },
  engine_light_ns: { selection: LIGHT, isEngine: true },
  readers_full_ns: { selection: FULL, isEngine: false },
  engine_full_ns: { selection: FULL, isEngine: true },
} as const;

export async function startReads(
  recording: Recording,
  names: readonly string[],
  { isEngine, selection }: { readonly isEngine: boolean; readonly selection: string },
): Promise<Read> {
  const { frames, hello, opening } = recording;
  const expected: unknown[] = [];
  const readers = await withReaders(names, selection, expected);
  const shown: unknown[] = [];
  const engine = await withEngine(names, selection, shown);
  for (const message of [hello, ...opening]) {
    readers(message);
    engine(message);
  }
  if (expected.length !== PVS || JSON.stringify(shown) !== JSON.stringify(expected)) {
    throw new Error("both ways give different results");
  }
  const take = isEngine ? engine : readers;
  return (at) => {
    if (take(frames[at % frames.length] as ArrayBuffer) < PVS) {
      throw new Error("not all PVs were read");
    }
  };
}

/** Applies a message and reads the PVs that it changed; gives their number. */
type Take = (message: ArrayBuffer) => number;

/** Asks for PVs one request after another, after a ping, as the recorded client did. */
class Asking {
  #rest: Uint32Array;
  #ask: (slots: Uint32Array) => number;
  #ping: () => void;

  constructor(slots: Uint32Array, ping: () => void, ask: (slots: Uint32Array) => number) {
    this.#rest = slots;
    this.#ping = ping;
    this.#ask = ask;
  }

  answered(answered: number): void {
    if (this.#rest.length === 0) return;
    if (answered !== Answered.hello && answered !== Answered.subscribe) return;
    if (answered === Answered.hello) this.#ping();
    this.#rest = this.#rest.subarray(this.#ask(this.#rest));
  }
}

async function withReaders(
  names: readonly string[],
  selection: string,
  shown: unknown[],
): Promise<Take> {
  await load(undefined);
  const wasm = new Wasm();
  const { core } = wasm;
  const plan = planSelection(selection);
  const slots = names.map((name) => new Slot(wasm, name, wasm.add(name)));
  const views = names.map(() => new View(plan));
  const asking = new Asking(
    Uint32Array.from(slots, ({ index }) => index),
    () => core.ping(0),
    (some) => {
      core.subscribe(some, 0, 0, 0, 0, 0, 0, false);
      return core.taken();
    },
  );
  return (message) => {
    const applied = wasm.apply(message, message.byteLength);
    if (applied === undefined) throw new Error(core.error());
    asking.answered(applied.answered);
    const { columns } = wasm;
    const { parts } = columns;
    const dirty = wasm.dirty();
    for (const index of dirty) {
      const view = views[index] as View;
      shown[index] = view.show(slots[index] as Slot, columns, parts[index] as number);
    }
    const { length } = dirty;
    core.clear_dirty();
    return length;
  };
}

type Values = Readonly<Record<string, unknown>>;

/** Makes an object from the next cells: the fields that `parts` affect. */
type Make = (cells: Cells, parts: number, last: Values | null | undefined) => Values | null;

/** A field: its key, the parts that it reads, and what makes it if it is an object. */
type Field = readonly [key: string, mask: number, make: Make | null];

/** The cells of one flush; the numbers of kinds are those of `select/execute/results.rs`. */
class Cells {
  #at = 0;
  #numbers: Float64Array;
  #words: Uint32Array;
  #text: string;
  #constants: readonly string[];
  id = "";

  constructor(buffer: ArrayBuffer, at: number, count: number, text: string, known: string[]) {
    this.#numbers = new Float64Array(buffer, at, count);
    this.#words = new Uint32Array(buffer, at, 2 * count);
    this.#text = text;
    this.#constants = known;
  }

  isMissing(): boolean {
    return this.#kind(this.#at++) === 1;
  }

  field(): unknown {
    const number = this.#numbers[this.#at++] as number;
    return Number.isNaN(number) ? this.#other(this.#at - 1) : number;
  }

  #kind(at: number): number {
    return ((this.#words[2 * at + 1] as number) >>> 14) & 31;
  }

  #other(at: number): unknown {
    const word = this.#words[2 * at] as number;
    switch (this.#kind(at)) {
      case 4:
        return this.#constants[word];
      case 5:
        // The package would have to copy a longer text, which otherwise keeps the text of all PVs.
        return this.#text.substring(word, word + ((this.#words[2 * at + 1] as number) & 0x3fff));
      case 11:
        return this.id;
      default:
        return null;
    }
  }
}

/** As in `ts/pv/objects.ts`, with the next cell in place of a reader. */
const MAKER = `([ak, am, ar], [bk, bm, br], [ck, cm, cr], [dk, dm, dr], none, isOptional) =>
  (cells, given, last) => {
    if (isOptional && cells.isMissing()) return null;
    const was = last ?? none;
    const parts = isOptional || was === none ? -1 : given;
    const a = (am & parts) === 0 ? was[ak] : ar === null ? cells.field() : ar(cells, parts, was[ak]);
    const b = (bm & parts) === 0 ? was[bk] : br === null ? cells.field() : br(cells, parts, was[bk]);
    const c = (cm & parts) === 0 ? was[ck] : cr === null ? cells.field() : cr(cells, parts, was[ck]);
    const d = (dm & parts) === 0 ? was[dk] : dr === null ? cells.field() : dr(cells, parts, was[dk]);
    if (
      Object.is(a, was[ak]) && Object.is(b, was[bk]) && Object.is(c, was[ck]) && Object.is(d, was[dk])
    ) return was;
    const now = { ...none };
    now[ak] = a;
    if (bm !== 0) now[bk] = b;
    if (cm !== 0) now[ck] = c;
    if (dm !== 0) now[dk] = d;
    return now;
  }`;

const NO_FIELD: Field = ["", 0, null];

let copies = 0;

/**
 * Each object gets a separate copy of the function, which JavaScript optimises for it alone. Equal
 * texts would be one function.
 */
function objectOf(fields: readonly Field[], isOptional: boolean): Make {
  // eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call -- A copy of a function.
  const maker = new Function(`/* ${String(copies)} */ return ${MAKER}`)() as (
    ...words: unknown[]
  ) => Make;
  copies += 1;
  const [a, b = NO_FIELD, c = NO_FIELD, d = NO_FIELD] = fields;
  const none = Object.fromEntries(fields.map(([key]) => [key, undefined]));
  return maker(a, b, c, d, none, isOptional);
}

/** In every mask, so that all parts affect fields that read none. */
const ANY = 1 << 31;

/** Objects that a PV may not have. */
const OPTIONAL = /^(value|time)$/;

/** Takes the lines of a plan up to the end of an object; gives what makes it, and what it reads. */
function makerOf(lines: string[], object = ""): { readonly make: Make; readonly mask: number } {
  const fields: Field[] = [];
  let all = 0;
  let line: string | undefined;
  while ((line = lines.shift()) && line !== "}") {
    const [sign, key = "", name, own] = line.split(" ");
    const inner = sign === "{" ? makerOf(lines, name) : undefined;
    const mask = Number(own) | (inner?.mask ?? 0);
    fields.push([key, mask | ANY, inner?.make ?? null]);
    all |= mask;
  }
  return { make: objectOf(fields, OPTIONAL.test(object)), mask: all };
}

async function withEngine(
  names: readonly string[],
  selection: string,
  shown: unknown[],
): Promise<Take> {
  const response = await fetch(engineUrl);
  const { memory } = initSync(await response.arrayBuffer());
  await load(undefined);
  const engine = new Engine(selection);
  const known = constants().split("\n");
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const { make } = makerOf(compileSelection(selection).split("\n"));
  const slots = Uint32Array.from(names, (name) => engine.add(name));
  const asking = new Asking(
    slots,
    () => {
      engine.ping();
    },
    (some) => engine.subscribe(some),
  );
  let isOpening = true;
  return (message) => {
    const at = engine.reserve(message.byteLength);
    new Uint8Array(memory.buffer, at).set(new Uint8Array(message));
    const answered = engine.apply(message.byteLength);
    if (answered < 0) throw new Error("not a valid message");
    asking.answered(answered);
    const summary = engine.flush(isOpening);
    const { buffer } = memory;
    const [dirtyAt = 0, length = 0, cellsAt = 0, count = 0, textAt = 0, bytes = 0] =
      new Uint32Array(buffer, summary, 6);
    const text = decoder.decode(new Uint8Array(buffer, textAt, bytes));
    const cells = new Cells(buffer, cellsAt, count, text, known);
    const parts = new Uint32Array(buffer, engine.parts(), names.length);
    for (const index of new Uint32Array(buffer, dirtyAt, length)) {
      cells.id = names[index] as string;
      const last = isOpening ? null : (shown[index] as Values);
      shown[index] = make(cells, isOpening ? ALL_PARTS : (parts[index] as number), last);
    }
    engine.clear_dirty();
    // The relay sends all values before the first frame of updates.
    if (isOpening) isOpening = shown.length < names.length || shown.includes(undefined);
    return length;
  };
}
