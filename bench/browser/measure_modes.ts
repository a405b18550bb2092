/** What a page pays for a connection in its own thread, in a worker, or in one worker for all tabs. */

import { readdirSync, readFileSync } from "node:fs";

import type { Page } from "playwright";

import { checkArrived, mainThread, type Bench, type Measurement } from "./measure";
import type {} from "./page/main";
import { pvNames, PVS, RATE_HZ } from "./pvs";
import type { Round } from "./report";

/** What the page has; runs there. */
declare const measurements: NonNullable<Window["measurements"]>;

type Place = "main" | "dedicated" | "shared";

/** Where it is, and in how many tabs at once. */
const PLACES: readonly (readonly [place: Place, tabs: number])[] = [
  ["main", 1],
  ["dedicated", 1],
  ["shared", 1],
  ["main", 2],
  ["shared", 2],
];

/** The page's clock begins when it has loaded, this one a moment before. */
const MARGIN_MS = 500;

export const modes: Measurement = {
  name: "browser-modes",
  question:
    "Where should the connection be: in the page, in a worker, or in one worker for all tabs?",
  about:
    `${String(PVS)} PVs × ${String(RATE_HZ)} Hz, a callback for each that reads its time stamp, in tabs that are` +
    " all seen. CPU time from the kernel's books: of a tab's main thread, and of all that Chromium runs." +
    " Of two tabs the figures are those of the slower one, and the main thread that of one.",
  settings: { pvs: PVS, rate_hz: RATE_HZ },
  labels: {
    main_thread_percent: ["main thread's CPU time, each tab", "%"],
    main_thread_us_per_update: ["the same for an update", "µs"],
    browser_percent: ["CPU time of the whole browser", "%"],
    latency_p50_ms: ["time stamp to callback, median", "ms"],
    latency_p99_ms: ["time stamp to callback, 99 %", "ms"],
    updates_per_s: ["updates that arrived, each tab", "/s"],
    connections: ["connections", ""],
  },
  points: PLACES.map(([place, tabs]) => ({
    label: `${place}, ${tabs === 1 ? "one tab" : "two tabs"}`,
    measure: async (bench) => await measure(bench, place, tabs),
  })),
};

async function measure(bench: Bench, place: Place, tabs: number): Promise<Round> {
  const { ms, open, relayUrl, warmUpMs } = bench;
  return await open(async (page) => {
    const pages = [page];
    while (pages.length < tabs) pages.push(await another(page));
    const running = Promise.all(
      pages.map(
        async (tab) =>
          await tab.evaluate(
            async ([place, url, names, warmUpMs, ms]) =>
              await measurements().latencyIn(place, url, names, warmUpMs, ms),
            [place, relayUrl, pvNames(), warmUpMs, ms] as const,
          ),
      ),
    );
    const usedNs = [await mainThread(page), await wholeBrowser(page)] as const;
    const now = () => [performance.now() * 1e6, ...usedNs.map((read) => read())] as const;
    await page.waitForTimeout(warmUpMs + MARGIN_MS);
    const connections = await clientsOf(relayUrl);
    const before = now();
    await page.waitForTimeout(ms - 2 * MARGIN_MS);
    const after = now();
    const [took = NaN, main = NaN, browser = NaN] = after.map(
      (value, at) => value - (before[at] ?? NaN),
    );
    const figures = await running;
    const updates = Math.min(...figures.map(({ updates_per_s }) => updates_per_s));
    checkArrived(updates);
    if (connections !== (place === "shared" ? 1 : tabs)) {
      throw new Error(`${String(tabs)} tabs have ${String(connections)} connections`);
    }
    return {
      main_thread_percent: (100 * main) / took / tabs,
      main_thread_us_per_update: (1e6 * main) / took / tabs / updates,
      browser_percent: (100 * browser) / took,
      latency_p50_ms: Math.max(...figures.map(({ latency_p50_ms }) => latency_p50_ms)),
      latency_p99_ms: Math.max(...figures.map(({ latency_p99_ms }) => latency_p99_ms)),
      updates_per_s: updates,
      connections,
    };
  });
}

/** A second tab of the same browser, which knows nothing of the first. */
async function another(page: Page): Promise<Page> {
  const opened = page.context().waitForEvent("page");
  await page.evaluate(() => {
    window.open(location.href, "_blank", "noopener");
  });
  const other = await opened;
  await other.waitForFunction(() => window.measurements !== undefined);
  return other;
}

/** The clients that the relay counts. */
async function clientsOf(relayUrl: string): Promise<number> {
  const status = await fetch(new URL("/status", relayUrl.replace("ws", "http")));
  return ((await status.json()) as { readonly clients: number }).clients;
}

/** Reads the CPU time of every thread of every process that the browser has, in nanoseconds. */
async function wholeBrowser(page: Page): Promise<() => number> {
  const session = await page.context().browser()?.newBrowserCDPSession();
  if (session === undefined) throw new Error("the page has no browser");
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  return () => processInfo.reduce((sum, { id }) => sum + processNs(id), 0);
}

function processNs(process: number): number {
  const threads = `/proc/${String(process)}/task`;
  let sum = 0;
  for (const thread of readdirSync(threads)) {
    try {
      sum += Number(readFileSync(`${threads}/${thread}/schedstat`, "utf8").split(" ")[0]);
    } catch {
      // A thread that ends between the list and its file had little to do.
    }
  }
  return sum;
}
