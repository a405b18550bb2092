/** Charts whose page, relay or IOC was away: every update that the relay has kept is shown, once. */

import { randomBytes } from "node:crypto";

import { afterAll, afterEach, beforeAll, expect, it } from "vitest";

import { LinkProxy } from "../../testbed/ts/link_proxy.js";
import { Relay } from "../../testbed/ts/relay.js";
import { Tail } from "../ts/history/tail.js";
import type { LivePvHistory, PvClient } from "../ts/index.js";
import { POINT_FIELDS, feed, type PointData } from "../ts/widgets/feed.js";
import { History } from "../ts/widgets/history.js";
import { startIoc, steadyClientOf, type RealIoc } from "./real.js";

/** STEADY is processed once. */
const SCANS = [
  ["FAST", ".1 second"],
  ["SLOW", "2 second"],
  ["STEADY", "Passive"],
] as const;

const RECORDS = SCANS.map(
  ([name, scan]) => `record(calc, "$(P):${name}") {
    field(SCAN, "${scan}") field(PINI, "YES") field(INPA, "$(P):${name}") field(CALC, "A+1")
  }`,
);

const prefix = `T${randomBytes(4).toString("hex")}`;
const NAMES = SCANS.map(([name]) => `${prefix}:${name}`);
const [FAST = ""] = NAMES;

let ioc: RealIoc;
let relay: Relay;
let pages: Page[] = [];

beforeAll(async () => {
  ioc = await startIoc(prefix, RECORDS.join("\n"));
  relay = await Relay.start(ioc.network, [`--history=${prefix}:*=1h`]);
});

afterAll(async () => {
  await relay.kill();
  await ioc.end();
});

afterEach(() => {
  for (const page of pages) page.end();
  pages = [];
});

/** A PV as `usePvHistory` and `StripChart` show it. */
class Chart {
  readonly #tail: Tail;
  readonly #strip = new History();
  readonly #ended = new AbortController();

  constructor(client: PvClient, name: string) {
    this.#tail = new Tail(client, name, { from: "-10m", points: 4000 }, () => undefined);
    const point = client.pv<PointData>(name, POINT_FIELDS);
    const { show, take } = feed({
      client,
      name,
      point,
      history: this.#strip,
      signal: this.#ended.signal,
      seconds: () => 600,
      onPast: () => undefined,
    });
    show(600);
    const stop = point.subscribe(take);
    this.#ended.signal.addEventListener("abort", stop);
    take();
  }

  get shown(): LivePvHistory {
    return this.#tail.shown;
  }

  get numbers(): number[] {
    return [...this.shown.numbers];
  }

  get newest(): number {
    return this.shown.numbers.at(-1) ?? NaN;
  }

  /** The values of the strip chart, each once, with null for a gap. */
  get strip(): (number | null)[] {
    const { y } = this.#strip.curve(Date.now() / 1000, 1e6, 1e9);
    return y.filter((value, row) => row === 0 || value !== y[row - 1]);
  }

  end(): void {
    this.#tail.end();
    this.#ended.abort();
  }
}

/** A page with a chart of each PV, and its connection. */
class Page {
  readonly client: PvClient;
  readonly charts: readonly [Chart, Chart, Chart];

  private constructor(readonly link: LinkProxy) {
    const client = steadyClientOf(link.port);
    this.client = client;
    this.charts = NAMES.map((name) => new Chart(client, name)) as [Chart, Chart, Chart];
  }

  static async open(): Promise<Page> {
    const page = new Page(await LinkProxy.start(relay.port));
    pages.push(page);
    await expect
      .poll(() => page.charts.every(({ shown }) => shown.numbers.length > 0 && !shown.isLoading))
      .toBe(true);
    await page.counted(5);
    return page;
  }

  /** Waits until FAST has counted on by `more` after the number that is shown now. */
  async counted(more: number): Promise<void> {
    const [{ newest }] = this.charts;
    await expect.poll(() => this.charts[0].newest).toBeGreaterThan(newest + more);
  }

  /** Waits until FAST is shown as gone, and has then counted on by `more`. */
  async away(more: number): Promise<void> {
    await expect.poll(() => this.charts[0].shown.gaps.length).toBe(1);
    const [{ newest }] = this.charts;
    const other = steadyClientOf(relay.port);
    const pv = other.pv<{ value: { number: number } | null }>(FAST, "{ value { number } }");
    const stop = pv.subscribe(() => undefined);
    await expect.poll(() => pv.getSnapshot()?.value?.number).toBeGreaterThan(newest + more);
    stop();
    other.dispose();
  }

  /** Every update is shown once, without a gap. */
  async expectAll(): Promise<void> {
    for (const [at, chart] of this.charts.entries()) {
      const options = { message: NAMES[at] ?? "" };
      await expect.poll(() => pieces(chart.numbers).length, options).toBe(1);
      await expect.poll(() => chart.shown.gaps, options).toEqual([]);
      await expect.poll(() => chart.strip.includes(null), options).toBe(false);
      await expect.poll(() => pieces(chart.strip).length, options).toBe(1);
    }
    expect(this.charts[2].numbers).toEqual([1]);
  }

  end(): void {
    for (const chart of this.charts) chart.end();
    this.client.dispose();
    this.link.end();
  }
}

/** The pieces of a row of numbers that each count on. */
function pieces(values: readonly (number | null)[]): number[][] {
  const all: number[][] = [];
  let next: number | undefined;
  for (const value of values) {
    if (value !== null && value === next) all.at(-1)?.push(value);
    else if (value !== null) all.push([value]);
    next = value === null ? undefined : value + 1;
  }
  return all;
}

/** A relay or IOC that gets no core for two seconds on a busy machine makes gaps that are real. */
const STARVED = { retry: 2 };

it("has what a page missed while its connection was cut or stalled", STARVED, async () => {
  const [cut, stalled] = await Promise.all([Page.open(), Page.open()]);
  const isCut = async (): Promise<void> => {
    for (const more of [25, 10]) {
      cut.link.cut();
      await cut.away(more);
      cut.link.restore();
      await cut.counted(more + 5);
      await cut.expectAll();
    }
  };
  const isStalled = async (): Promise<void> => {
    stalled.link.stall();
    await stalled.away(45);
    stalled.link.restore();
    await stalled.counted(50);
    await stalled.expectAll();
  };
  await Promise.all([isCut(), isStalled()]);
  expect(stalled.client.stats.getSnapshot().reconnectsTotal).toBe(0);
});

it("has what a page missed while it didn't run", STARVED, async () => {
  const page = await Page.open();
  // The relay stops to send after two seconds.
  const end = Date.now() + 3000;
  while (Date.now() < end);
  await page.counted(35);
  await page.expectAll();
  expect(page.client.stats.getSnapshot().reconnectsTotal).toBe(0);
});

it(
  "keeps what it has shown when the relay restarts, with a gap for what no relay received",
  STARVED,
  async () => {
    const page = await Page.open();
    const [fast, , steady] = page.charts;
    const before = fast.numbers;
    await relay.kill();
    // What was on its way has arrived.
    await expect.poll(() => page.client.connection.getSnapshot().state).not.toBe("open");
    await expect.poll(() => fast.shown.gaps.length).toBe(1);
    const last = fast.newest;
    // FAST counts on meanwhile: a relay that comes back at once would miss nothing.
    const killedMs = Date.now();
    await expect.poll(() => Date.now() - killedMs).toBeGreaterThan(500);
    await relay.restart();
    await expect.poll(() => fast.newest).toBeGreaterThan(last + 10);
    await page.counted(10);
    const { gaps, timeNs } = fast.shown;
    expect(fast.numbers.slice(0, before.length)).toEqual(before);
    const [one = [], two = [], ...more] = pieces(fast.numbers);
    expect(more).toEqual([]);
    expect(one.at(-1)).toBe(last);
    expect(gaps).toMatchObject([{ cause: "disconnected" }]);
    // It ends with the first update that the new relay received.
    expect(gaps[0]?.fromNs).toBeGreaterThan(timeNs[one.length - 1] ?? 0n);
    expect(gaps[0]?.toNs).toBeLessThanOrEqual(timeNs[one.length] ?? 0n);
    const strip = pieces(fast.strip);
    expect(strip.map((piece) => piece[0])).toEqual([one[0], two[0]]);
    expect(strip[0]?.at(-1)).toBe(last);
    expect(steady.numbers).toEqual([1]);
    expect(steady.shown.gaps).toHaveLength(1);
    expect(steady.strip).toEqual([1, null, 1]);
  },
);

it("shows the past of a PV that is opened while its IOC hangs, before it is found or not", async () => {
  const flags = ["--linger-ms=0", "--not-found-after-ms=60000"];
  const other = await Relay.start(ioc.network, flags);
  const [before, after] = [steadyClientOf(other.port), steadyClientOf(other.port)];
  const first = new Chart(before, FAST);
  await expect.poll(() => first.numbers.length).toBeGreaterThan(5);
  first.end();
  before.dispose();
  const past = async (): Promise<unknown> =>
    (await fetch(`http://127.0.0.1:${String(other.port)}/pv/${FAST}/history`)).text();
  await expect.poll(past).toContain("not monitored");
  ioc.child.signal("SIGSTOP");
  const chart = new Chart(after, FAST);
  try {
    await expect.poll(() => chart.numbers.length).toBeGreaterThan(5);
    await expect.poll(() => pieces(chart.strip)).toEqual([chart.numbers]);
    expect(chart.shown.isLoading).toBe(false);
  } finally {
    ioc.child.signal("SIGCONT");
  }
  const { length } = chart.numbers;
  await expect.poll(() => chart.numbers.length).toBeGreaterThan(length + 5);
  // The IOC may have counted on before it was hung, while the PV wasn't monitored.
  await expect.poll(() => pieces(chart.numbers).length).toBeLessThanOrEqual(2);
  expect(chart.shown.gaps.map(({ cause }) => cause)).toContain("not monitored");
  chart.end();
  after.dispose();
  await other.kill();
});

it("has an IOC's own silence as a gap, also in charts that are opened meanwhile", async () => {
  const page = await Page.open();
  const [fast] = page.charts;
  const early: Chart[] = [];
  const late: Chart[] = [];
  ioc.child.signal("SIGSTOP");
  try {
    early.push(new Chart(page.client, FAST));
    await expect.poll(() => fast.shown.gaps.length).toBe(1);
    late.push(...NAMES.map((name) => new Chart(page.client, name)));
    const isShown = ({ shown, strip }: Chart): boolean =>
      !shown.isLoading && shown.gaps.length === 1 && strip.length > 1 && strip.at(-1) === null;
    await expect.poll(() => [...page.charts, ...early, ...late].every(isShown)).toBe(true);
    for (const chart of [fast, ...early, ...late.slice(0, 1)]) {
      expect(chart.numbers).toEqual(fast.numbers);
      expect(pieces(chart.strip)).toEqual([fast.numbers]);
    }
  } finally {
    ioc.child.signal("SIGCONT");
  }
  await page.counted(5);
  for (const chart of [...page.charts, ...early, ...late]) {
    await expect.poll(() => pieces(chart.numbers).length).toBe(1);
    expect(chart.shown.gaps).toMatchObject([{ toNs: expect.any(BigInt) as bigint }]);
    await expect.poll(() => chart.strip.at(-1)).toBeTypeOf("number");
    chart.end();
  }
});
