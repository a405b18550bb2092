/** Clients that were cut off from a real relay: they have every update once, or know how many they don't have. */

import { randomBytes } from "node:crypto";
import path from "node:path";

import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";

import { LinkProxy } from "../../testbed/ts/link_proxy.js";
import { Relay } from "../../testbed/ts/relay.js";
import type { PvClient, PvInspection } from "../ts/index.js";
import { watchMissed, type MissedWatch, type PvMissed } from "../ts/missed/index.js";
import { startIoc, startNats, steadyClientOf, type RealIoc } from "./real.js";

const COUNTERS = 20;

const prefix = `T${randomBytes(4).toString("hex")}`;
const NAMES = Array.from({ length: COUNTERS }, (_, at) => `${prefix}:n${String(at)}`);
const [FIRST = ""] = NAMES;

let ioc: RealIoc;

beforeAll(async () => {
  const records = NAMES.map(
    (name) => `record(calc, "${name}") { field(SCAN, ".1 second") field(CALC, "VAL+1") }`,
  );
  ioc = await startIoc(prefix, records.join("\n"));
});

afterAll(async () => {
  await ioc.end();
});

interface Seen {
  readonly value: { readonly number: number } | null;
}

const NOTHING: PvInspection = { sequence: NaN, updatesReceived: NaN, skipped: NaN };

/** A client that takes all updates, by way of a line that can be cut. */
class Page {
  readonly client: PvClient;
  readonly watch: MissedWatch;
  readonly missed: PvMissed[] = [];
  /** The numbers of each PV by the numbers of its updates. */
  readonly live = new Map(NAMES.map((name) => [name, new Map<number, number>()]));
  /** The numbers alone: another relay has other numbers for updates. */
  readonly numbers = new Map(NAMES.map((name) => [name, new Set<number>()]));

  constructor(readonly link: LinkProxy) {
    this.client = steadyClientOf(link.port);
    this.watch = watchMissed(this.client, (missed) => this.missed.push(missed));
    for (const name of NAMES) {
      const pv = this.client.pv<Seen>(name, "{ value { number } }");
      pv.subscribe(() => {
        const number = pv.getSnapshot()?.value?.number;
        const sequence = this.client.inspect(name)?.sequence;
        if (number !== undefined && sequence !== undefined) {
          this.live.get(name)?.set(sequence, number);
          this.numbers.get(name)?.add(number);
        }
      });
    }
  }

  inspected(): PvInspection[] {
    return NAMES.map((name) => this.client.inspect(name) ?? NOTHING);
  }

  get newest(): number {
    return Math.max(0, ...(this.numbers.get(FIRST) ?? []));
  }

  async counted(more: number): Promise<void> {
    const { newest } = this;
    await expect.poll(() => this.newest, { timeout: 20_000 }).toBeGreaterThan(newest + more);
  }

  /** Is cut off until another client has counted on; then it goes to the relay at the second port. */
  async away(port: number, more: number, next = port): Promise<void> {
    this.link.cut();
    await expect.poll(() => this.client.connection.getSnapshot().state).toBe("lost");
    const { newest } = this;
    const other = steadyClientOf(port);
    const pvs = NAMES.map((name) => other.pv<Seen>(name, "{ value { number } }"));
    for (const pv of pvs) pv.subscribe(() => undefined);
    await expect.poll(() => pvs[0]?.getSnapshot()?.value?.number).toBeGreaterThan(newest + more);
    this.link.restore(next);
    await this.counted(more + 5);
    await expect.poll(() => this.watch.getSnapshot().waiting).toBe(0);
    other.dispose();
  }

  end(): void {
    this.watch.end();
    this.client.dispose();
    this.link.end();
  }
}

/** A relay that ends with its test, also if that fails. */
async function startRelay(flags: readonly string[]): Promise<Relay> {
  const relay = await Relay.start(ioc.network, flags);
  onTestFinished(() => relay.kill());
  return relay;
}

/** A page that ends with its test. */
async function startPage({ port }: Relay): Promise<Page> {
  const page = new Page(await LinkProxy.start(port));
  onTestFinished(() => {
    page.end();
  });
  return page;
}

/** On a busy machine the IOC or the relay may skip updates. */
const STARVED = { retry: 2, timeout: 60_000 };

it("has every update once after several cuts, and has skipped none", STARVED, async () => {
  const relay = await startRelay([`--history=${prefix}:*=1h`]);
  const page = await startPage(relay);
  await page.counted(5);
  const before = page.inspected();
  for (const more of [25, 10]) await page.away(relay.port, more);
  const after = page.inspected();
  for (const [at, name] of NAMES.entries()) {
    const live = page.live.get(name) ?? new Map<number, number>();
    const missed = page.missed.filter((one) => one.name === name);
    expect(missed.map(({ absent }) => absent)).toEqual([[], []]);
    const all = new Map(live);
    for (const { numbers, sequences } of missed) {
      const [first = 0] = sequences;
      sequences.forEach((sequence, row) => {
        expect(sequence).toBe(first + row);
        expect(all.has(sequence), `${name}: ${String(sequence)} came twice`).toBe(false);
        all.set(sequence, numbers[row] ?? NaN);
      });
    }
    const offsets = new Set([...all].map(([sequence, number]) => number - sequence));
    expect(offsets.size, name).toBe(1);
    const [from = NOTHING, to = NOTHING] = [before[at], after[at]];
    const later = missed.reduce((sum, { sequences }) => sum + sequences.length, 0);
    const received = to.updatesReceived - from.updatesReceived;
    expect(received + later, name).toBe(to.sequence - from.sequence);
    expect(to.skipped).toBe(0);
  }
  const { absentTotal, unknownTotal, updatesTotal } = page.watch.getSnapshot();
  expect({ absentTotal, unknownTotal }).toEqual({ absentTotal: 0, unknownTotal: 0 });
  expect(updatesTotal).toBeGreaterThan(COUNTERS * 30);
});

it("counts as skipped what a relay has not kept, and tells a restart", STARVED, async () => {
  const relay = await startRelay(["--no-history"]);
  const page = await startPage(relay);
  await page.counted(5);
  const before = page.inspected();
  await page.away(relay.port, 10);
  const after = page.inspected();
  let skipped = 0;
  for (const [at, name] of NAMES.entries()) {
    const [from = NOTHING, to = NOTHING] = [before[at], after[at]];
    const received = to.updatesReceived - from.updatesReceived;
    const count = to.sequence - from.sequence - received;
    const [missed] = page.missed.filter((one) => one.name === name);
    expect(missed?.absent).toEqual([{ cause: "not kept", count }]);
    expect(to.skipped).toBe(count);
    skipped += count;
  }
  expect(page.watch.getSnapshot().absentTotal).toBe(skipped);
  expect(skipped).toBeGreaterThan(COUNTERS * 8);
  await relay.restart();
  await expect
    .poll(() => page.watch.getSnapshot(), { timeout: 20_000 })
    .toMatchObject({ unknownTotal: COUNTERS, waiting: 0 });
  const restarted = page.missed.slice(COUNTERS);
  expect(restarted.map(({ absent }) => absent)).toEqual(
    NAMES.map(() => [{ cause: "restarted", count: undefined }]),
  );
});

/** Live and missed together, each number of a PV came once. */
function expectWhole(page: Page, name: string, before: number): void {
  const missed = page.missed.filter((one) => one.name === name);
  expect(missed.map(({ absent }) => absent)).toEqual([[]]);
  const numbers = missed.flatMap((one) => [...one.numbers]);
  const live = [...(page.numbers.get(name) ?? [])];
  expect(numbers.length).toBeGreaterThan(before);
  const all = [...live, ...numbers].sort((one, other) => one - other);
  expect(all, name).toEqual(all.map((_, at) => (all[0] ?? 0) + at));
}

it("has every update at another relay of its fleet", STARVED, async () => {
  const { bus, child: nats } = await startNats();
  onTestFinished(() => nats.kill());
  const flags = [`--history=${prefix}:*=1h`, "--bus", bus];
  const [one, other] = await Promise.all([startRelay(flags), startRelay(flags)]);
  for (const { port } of [one, other]) {
    const members = async (): Promise<number> => {
      const answer = await fetch(`http://127.0.0.1:${String(port)}/status`);
      return ((await answer.json()) as { fleet: unknown[] }).fleet.length;
    };
    await expect.poll(members).toBe(2);
  }
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    const page = await startPage(from);
    await page.counted(5);
    await page.away(from.port, 25, to.port);
    for (const name of NAMES) expectWhole(page, name, 20);
    expect(page.watch.getSnapshot()).toMatchObject({ absentTotal: 0, unknownTotal: 0 });
  }
});

it("knows that a relay which reads its past from a disk was away", STARVED, async () => {
  const folder = path.join(ioc.folder, randomBytes(4).toString("hex"));
  const flags = [`--history=${prefix}:*=1h`, "--history-dir", folder];
  const relay = await startRelay(flags);
  const page = await startPage(relay);
  await page.counted(0);
  // It writes to the disk each second.
  await page.counted(25);
  await relay.restart();
  await expect
    .poll(() => page.watch.getSnapshot(), { timeout: 20_000 })
    .toMatchObject({ unknownTotal: COUNTERS, waiting: 0 });
  const causes = page.missed.map(({ absent }) => absent.map(({ cause }) => cause));
  expect(causes).toEqual(NAMES.map(() => ["not monitored"]));
});
