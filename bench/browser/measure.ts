/** What all measurements in a browser need: a page, the time of its main thread, and updates. */

import { readFileSync } from "node:fs";

import type { CDPSession, Page } from "playwright";

import type { EpicsNetwork } from "../../testbed/ts/epics";
import { PVS, RATE_HZ } from "./pvs";
import type { Round, Scenario } from "./report";

/** Fewer than this share of the updates that are made: something is broken. */
const LEAST_SHARE = 0.9;

/** What every measurement finds. */
export interface Bench {
  /** A new page in a new browser, so that nothing remains of the previous one. */
  readonly open: <T>(work: (page: Page) => Promise<T>) => Promise<T>;
  /** Where the page comes from, for a relay that is to serve it. */
  readonly pageUrl: string;
  readonly relayUrl: string;
  readonly coniqlUrl: string;
  readonly network: EpicsNetwork;
  readonly warmUpMs: number;
  readonly ms: number;
  /** For what shows only after a while, such as memory that grows. */
  readonly longMs: number;
  /** Whether ways are profiled too. */
  readonly profiles: boolean;
}

export interface Measurement extends Scenario {
  /** Fewer than the others have, for what takes long. */
  readonly mostRounds?: number;
  /** One round of each point. */
  readonly points: readonly {
    readonly label: string;
    readonly measure: (bench: Bench) => Promise<Round>;
  }[];
}

export function checkArrived(updatesPerS: number, madePerS = PVS * RATE_HZ): void {
  if (updatesPerS >= LEAST_SHARE * madePerS) return;
  throw new Error(`only ${String(Math.round(updatesPerS))} updates a second arrived`);
}

/** The ids of the page's process, and of a spare one that the browser keeps and that does nothing. */
export async function renderers(page: Page): Promise<string[]> {
  const browser = page.context().browser();
  if (browser === null) throw new Error("the page has no browser");
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  return processInfo.filter(({ type }) => type === "renderer").map(({ id }) => String(id));
}

/** Reads the CPU time of the page's main thread, in nanoseconds: others on the machine don't count. */
export async function mainThread(page: Page): Promise<() => number> {
  const ids = await renderers(page);
  const files = ids.map((id) => `/proc/${id}/task/${id}/schedstat`);
  return () => files.reduce((sum, file) => sum + cpuNs(file), 0);
}

const cpuNs = (schedstat: string): number => Number(readFileSync(schedstat, "utf8").split(" ")[0]);

const PERFORMANCE = [
  "Timestamp",
  "TaskDuration",
  "ScriptDuration",
  "LayoutDuration",
  "RecalcStyleDuration",
] as const;

/** Seconds that Chromium has spent in the page's main thread, by what it did. */
export async function performance(
  cdp: CDPSession,
): Promise<Record<(typeof PERFORMANCE)[number], number>> {
  await cdp.send("Performance.enable");
  const { metrics } = await cdp.send("Performance.getMetrics");
  const value = (name: string): number => metrics.find((one) => one.name === name)?.value ?? NaN;
  return Object.fromEntries(PERFORMANCE.map((name) => [name, value(name)])) as Record<
    (typeof PERFORMANCE)[number],
    number
  >;
}

type Used = Awaited<ReturnType<typeof performance>> & { readonly cpuSeconds: number };

/** What a warm page counts and uses a second, over `ms`. `count` reads what the page has counted so far. */
export async function ratesOf<T extends { readonly [K in keyof T]: number }>(
  page: Page,
  { ms, warmUpMs }: Pick<Bench, "ms" | "warmUpMs">,
  count: () => Promise<T>,
): Promise<Record<keyof T | keyof Used, number>> {
  await page.waitForTimeout(warmUpMs);
  const cdp = await page.context().newCDPSession(page);
  const used = await mainThread(page);
  const now = async (): Promise<Record<string, number>> => ({
    ...(await performance(cdp)),
    ...(await count()),
    cpuSeconds: used() / 1e9,
  });
  const before = await now();
  await page.waitForTimeout(ms);
  const after = await now();
  const grown = (of: string): number => (after[of] ?? NaN) - (before[of] ?? NaN);
  const rates = Object.keys(after).map((of) => [of, grown(of) / grown("Timestamp")]);
  return Object.fromEntries(rates) as Record<keyof T | keyof Used, number>;
}
