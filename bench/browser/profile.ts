/** Where a page's time goes, by Chromium's sampling profiler. */

import type { Page } from "playwright";

/** Interval between two samples, in microseconds. */
const INTERVAL_US = 200;

/** A function with less than this share of the samples is not listed. */
const LEAST_SHARE = 0.01;

/** Functions by their share of the samples while `run` runs, largest first; the module's are one. */
export async function profile(page: Page, run: () => Promise<unknown>): Promise<string> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Profiler.enable");
  await cdp.send("Profiler.setSamplingInterval", { interval: INTERVAL_US });
  await cdp.send("Profiler.start");
  await run();
  const { nodes, samples = [] } = (await cdp.send("Profiler.stop")).profile;
  const functions = new Map(nodes.map(({ callFrame, id }) => [id, callFrame]));
  const counts = new Map<string, number>();
  for (const sample of samples) {
    const { columnNumber, functionName, lineNumber, url } = functions.get(sample) ?? {
      columnNumber: 0,
      functionName: "?",
      lineNumber: 0,
      url: "",
    };
    const place = url === "" ? "" : ` ${String(lineNumber + 1)}:${String(columnNumber + 1)}`;
    const name = url.startsWith("wasm") ? "WebAssembly" : `${functionName || "(unnamed)"}${place}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .sort(([, one], [, other]) => other - one)
    .filter(([, count]) => count >= LEAST_SHARE * samples.length)
    .map(([name, count]) => `${((100 * count) / samples.length).toFixed(1).padStart(6)} % ${name}`)
    .join("\n");
}
