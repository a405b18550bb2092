/** The past of a relay, an archiver's samples and live updates in one curve: no update is missing, and none is twice. */

import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { filled, missing, type Archived } from "../ts/history/archive.js";
import { Tail } from "../ts/history/tail.js";
import type { ConnectionSnapshot, PvClient, PvHistory, PvHistoryOptions } from "../ts/index.js";
import { feed, type PointData } from "../ts/widgets/feed.js";
import { History } from "../ts/widgets/history.js";
import { randomNumbers } from "./random.js";

const JOINS = 10_000;
const STEP_MS = 20;

type Random = () => number;

const range = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);

/**
 * A relay whose ring has dropped its oldest updates, an archiver that is late, and a page's connection to them. Updates
 * count from 1; update n has the value n.
 */
class Source {
  /** Time stamps. */
  readonly #ns: bigint[] = [];
  /** Numbers wrap around. */
  readonly #wrap: number;
  #keptFrom = 1;
  #archivedTo = 0;
  #connection: Pick<ConnectionSnapshot, "state" | "relayInstance"> = {
    state: "open",
    relayInstance: "one",
  };
  #seen: number | undefined;
  #received = 0;
  #snapshot: unknown;
  readonly #listeners = new Set<() => void>();
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
    this.#wrap = random() < 0.2 ? 2 ** 32 - 10 : 0;
  }

  get count(): number {
    return this.#ns.length;
  }

  get isOpen(): boolean {
    return this.#connection.state === "open";
  }

  update(): void {
    const nowNs = BigInt(Date.now()) * 1_000_000n + BigInt(Math.floor(this.#random() * 1e6));
    const lastNs = this.#ns.at(-1) ?? 0n;
    this.#ns.push(nowNs > lastNs ? nowNs : lastNs + 1n);
    // The archiver has what the ring drops.
    if (this.#random() < 0.5) this.#archivedTo = Math.max(this.#archivedTo, this.count - 3);
    const reach = this.#archivedTo + 1;
    if (this.#random() < 0.2) {
      this.#keptFrom += Math.floor(this.#random() * Math.max(0, reach - this.#keptFrom + 1));
    }
    if (this.#seen !== undefined && this.isOpen) this.show();
  }

  /** The page gets the newest update, as the first one of its monitor or a later one. */
  show(): void {
    this.#seen = this.#sequence(this.count);
    this.#received += 1;
    const ns = this.#ns.at(-1) ?? 0n;
    const time = { seconds: Number(ns) / 1e9, nanoseconds: Number(ns % 1_000_000_000n) };
    this.#set("connected", { number: this.count }, time);
  }

  lose(): void {
    this.#connection = { ...this.#connection, state: "lost" };
    this.#set("disconnected", null, null);
  }

  restore(): void {
    this.#connection = { ...this.#connection, state: "open" };
    this.#received = 0;
    this.#notify();
  }

  get client(): PvClient {
    const subscribe = (listener: () => void): (() => void) => {
      this.#listeners.add(listener);
      return () => this.#listeners.delete(listener);
    };
    const client = {
      connection: { getSnapshot: () => this.#connection, subscribe },
      pv: () => ({ getSnapshot: () => this.#snapshot, subscribe }),
      inspect: () => ({ sequence: this.#seen, updatesReceived: this.#received }),
      history: (_: string, options: PvHistoryOptions) => this.#history(options),
    };
    return client as unknown as PvClient;
  }

  #sequence(update: number): number {
    return (update + this.#wrap) % 2 ** 32;
  }

  #set(state: string, value: unknown, time: unknown): void {
    const connected = state === "connected";
    this.#snapshot = {
      value,
      time,
      status: { severity: "NO_ALARM" },
      connection: { state, connected, unresponsive: false, readable: true, lastHeard: null },
      skips: { behind: 0, paced: 0 },
    };
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Updates of a range as columns, after the value that held at its begin. */
  #columns(first: number, last: number, fromNs: bigint): Archived {
    const all = range(first, last).map((update) => ({ update, ns: this.#ns[update - 1] ?? 0n }));
    const before = all.filter(({ ns }) => ns <= fromNs).slice(-1);
    const rows = [...before, ...all.filter(({ ns }) => ns > fromNs)];
    return {
      timeNs: BigInt64Array.from(rows, ({ ns }) => ns),
      numbers: Float64Array.from(rows, ({ update }) => update),
      severities: new Uint8Array(rows.length),
      statuses: new Uint16Array(rows.length),
      texts: new Map(),
      gaps: [],
      bins: [],
      hasHeld: before.length > 0,
    };
  }

  async #history({ from, onPartial, signal }: PvHistoryOptions): Promise<PvHistory> {
    await this.#late();
    const fromNs = typeof from === "bigint" ? from : 0n;
    const kept: PvHistory = {
      ...this.#columns(this.#keptFrom, this.count, fromNs),
      name: "N",
      integers: new Map(),
      skipped: new Map(),
      keptSinceNs: this.#ns[this.#keptFrom - 1],
      tick: 1n,
      epoch: 1,
      sequence: this.#sequence(this.count),
      incomplete: undefined,
      archiveError: undefined,
    };
    const whole = { fromNs, toNs: BigInt(Date.now()) * 1_000_000n };
    await this.#late();
    const parts = missing(kept, whole);
    if (parts.length === 0) return kept;
    onPartial?.(kept);
    await this.#late();
    signal?.throwIfAborted();
    return filled(kept, parts, this.#columns(1, this.#archivedTo, fromNs));
  }

  /** An answer takes its time; the loss of the relay ends it. */
  async #late(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, this.#random() * 5 * STEP_MS));
    if (!this.isOpen) throw Object.assign(new Error("lost"), { code: "RELAY_LOST" });
  }
}

/** The values of a strip chart, each once, with null for a gap. */
class Strip {
  readonly #history = new History();
  readonly #ended = new AbortController();

  constructor(client: PvClient) {
    const point = client.pv<PointData>("N");
    const { show, take } = feed({
      client,
      name: "N",
      point,
      history: this.#history,
      signal: this.#ended.signal,
      seconds: () => 600,
      onPast: () => undefined,
    });
    show(600);
    this.#ended.signal.addEventListener("abort", point.subscribe(take));
    take();
  }

  get values(): (number | null)[] {
    const { y } = this.#history.curve(Date.now() / 1000, 1e6, 1e9);
    return y.filter((value, row) => row === 0 || value !== y[row - 1]);
  }

  end(): void {
    this.#ended.abort();
  }
}

beforeEach(() => {
  vi.useFakeTimers({ now: 1_772_368_496_000 });
});

afterEach(() => {
  vi.useRealTimers();
});

it(`has every update once in ${String(JOINS)} joins of archiver, relay and live updates`, async () => {
  const random = randomNumbers(33);
  let losses = 0;
  for (let join = 0; join < JOINS; join += 1) {
    const source = new Source(random);
    const step = async (rate: number): Promise<void> => {
      if (random() < rate) source.update();
      await vi.advanceTimersByTimeAsync(STEP_MS);
    };
    const rate = 0.2 + 0.8 * random();
    for (let before = 0; before < 20; before += 1) await step(rate);
    source.update();
    const { client } = source;
    const tail = new Tail(client, "N", { from: "-10m" }, () => undefined);
    const strip = new Strip(client);
    for (let waits = Math.floor(random() * 4); waits > 0; waits -= 1) await step(rate);
    source.show();
    for (let live = Math.floor(random() * 30); live > 0; live -= 1) await step(rate);
    if (random() < 0.3) {
      losses += 1;
      source.lose();
      for (let away = Math.floor(random() * 30); away > 0; away -= 1) await step(rate);
      source.restore();
      for (let waits = Math.floor(random() * 3); waits > 0; waits -= 1) await step(0);
      source.show();
      for (let live = Math.floor(random() * 20); live > 0; live -= 1) await step(rate);
    }
    const all = range(1, source.count);
    const isWhole = (): boolean =>
      !tail.shown.isLoading &&
      tail.shown.gaps.length === 0 &&
      tail.shown.numbers.length >= all.length &&
      String(strip.values) === String(all);
    for (let turn = 0; turn < 500 && !isWhole(); turn += 1) await step(0);
    expect([...tail.shown.numbers], `join ${String(join)}`).toEqual(all);
    expect(tail.shown.gaps, `join ${String(join)}`).toEqual([]);
    expect(strip.values, `join ${String(join)}`).toEqual(all);
    tail.end();
    strip.end();
  }
  expect(losses).toBeGreaterThan(JOINS / 5);
}, 300_000);
