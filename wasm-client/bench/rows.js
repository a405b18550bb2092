/**
 * Benchmark: one numeric row, from the received bytes into the store.
 *
 * `node wasm-client/bench/rows.js [PKG ...]` measures one or more builds of the module, in turn, so
 * that a busy machine slows all of them alike.
 */

import console from "node:console";
import { readFileSync } from "node:fs";
import process from "node:process";
import { pathToFileURL } from "node:url";

import { FrameField, FrameKind, NumbersField, ReplyBody, SubscribedField } from "../dist/schema.js";

const ROWS = 1000;
const FRAMES = 20;
const ROUNDS = 300;
const FIRST_NS = 1_700_000_000_000_000_000n;

/** Writes one frame, from its end to its start. Places count from the end. */
class Writer {
  #bytes = new Uint8Array(64 * 1024);
  #view = new DataView(this.#bytes.buffer);
  #used = 0;

  #take(size, align) {
    this.#used += size;
    this.#used += (align - (this.#used % align)) % align;
    return this.#bytes.length - this.#used;
  }

  /** The elements must start at a multiple of `align`, their number just before them. */
  vector(bytes, count, align) {
    this.#used += (align - ((this.#used + bytes.length) % align)) % align;
    this.#bytes.set(bytes, this.#take(bytes.length, 1));
    this.#view.setUint32(this.#take(4, 4), count, true);
    return this.#used;
  }

  /** Each field is `[bytes, value]`, or the place of a vector or table. */
  table(ids, given) {
    const end = this.#used;
    const fields = Array(Object.keys(ids).length).fill(undefined);
    for (const [name, field] of Object.entries(given)) fields[ids[name]] = field;
    const places = fields.map((field) => {
      if (field === undefined) return 0;
      const [size, value] = typeof field === "number" ? [4, 0] : field;
      const at = this.#take(size, size);
      if (typeof field === "number") this.#view.setUint32(at, this.#used - field, true);
      else if (size === 8) this.#view.setBigUint64(at, value, true);
      else if (size === 4) this.#view.setUint32(at, value, true);
      else this.#view.setUint8(at, value);
      return this.#used;
    });
    const at = this.#take(4, 4);
    const table = this.#used;
    const vtable = this.#take(4 + 2 * fields.length, 2);
    this.#view.setUint16(vtable, 4 + 2 * fields.length, true);
    this.#view.setUint16(vtable + 2, table - end, true);
    places.forEach((place, index) => {
      this.#view.setUint16(vtable + 4 + 2 * index, place === 0 ? 0 : table - place, true);
    });
    this.#view.setInt32(at, at - vtable, true);
    return table;
  }

  finish(root) {
    const at = this.#take(8, 8);
    this.#view.setUint32(at, this.#used - root, true);
    this.#bytes.set(
      [..."PVWF"].map((letter) => letter.charCodeAt(0)),
      at + 4,
    );
    return this.#bytes.slice(at);
  }
}

/** Zigzag LEB128 differences, as `schema/PROTOCOL.md` has them. */
function deltas(of) {
  const bytes = [];
  for (let row = 0, before = 0n; row < ROWS; row += 1) {
    const delta = of(row) - before;
    before = of(row);
    let rest = BigInt.asUintN(64, (delta << 1n) ^ (delta >> 63n));
    for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
    bytes.push(Number(rest));
  }
  return bytes;
}

const bytesOf = (array) => new Uint8Array(array.buffer);

/** The answer that gives the PVs the numbers from 0 on. */
function subscribed(request) {
  const writer = new Writer();
  const ids = Uint32Array.from({ length: ROWS }, (_, row) => row);
  const reply = writer.table(SubscribedField, { ids: writer.vector(bytesOf(ids), ROWS, 4) });
  const fields = {
    kind: [1, FrameKind.Snapshot],
    tick: [8, 1n],
    replyTo: [4, request],
    replyType: [1, ReplyBody.Subscribed],
    reply,
  };
  return writer.finish(writer.table(FrameField, fields));
}

/** A scan: every PV has another value, some microseconds after the one before. */
function update(tick) {
  const writer = new Writer();
  const values = Float64Array.from({ length: ROWS }, (_, row) => row + tick / 1024);
  const ids = deltas(BigInt);
  const times = deltas((row) => BigInt(row) * 3217n);
  const numbers = writer.table(NumbersField, {
    count: [4, ROWS],
    ids: writer.vector(ids, ids.length, 4),
    baseTimeNs: [8, FIRST_NS + BigInt(tick) * 100_000_000n],
    times: writer.vector(times, times.length, 4),
    values: writer.vector(bytesOf(values), ROWS, 8),
  });
  const frame = { tick: [8, BigInt(tick)], prevTick: [8, BigInt(tick - 1)], numbers };
  return writer.finish(writer.table(FrameField, frame));
}

async function open(pkg) {
  const glue = await import(pathToFileURL(`${pkg}/pvwire_wasm.js`).href);
  const { memory } = glue.initSync(readFileSync(`${pkg}/pvwire_wasm_bg.wasm`));
  const core = new glue.Core();
  const apply = (bytes) => {
    const at = core.reserve(bytes.length);
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    if (!core.apply(bytes.length)) throw new Error(core.error());
  };
  const slots = Uint32Array.from({ length: ROWS }, (_, row) => core.add(`PV${row}`));
  core.subscribe(slots);
  apply(subscribed(core.last_request()));
  const summary = () => new Float64Array(memory.buffer, core.summary(), 8);
  return { pkg, core, apply, summary, tick: 1, best: Infinity };
}

const pkgs = process.argv.slice(2);
const builds = await Promise.all(
  (pkgs.length > 0 ? pkgs : [`${import.meta.dirname}/../pkg`]).map(open),
);
for (let round = 0; round < ROUNDS; round += 1) {
  for (const build of builds) {
    const frames = Array.from({ length: FRAMES }, () => update((build.tick += 1)));
    const start = process.hrtime.bigint();
    for (const frame of frames) {
      build.apply(frame);
      build.core.flush(NaN);
    }
    const ns = Number(process.hrtime.bigint() - start) / FRAMES / ROWS;
    build.best = Math.min(build.best, ns);
  }
}
for (const { pkg, summary, best, tick } of builds) {
  if (summary()[6] !== (tick - 1) * ROWS) throw new Error(`${pkg}: rows are missing`);
  console.log(`${pkg}: ${best.toFixed(1)} ns a row`);
}
