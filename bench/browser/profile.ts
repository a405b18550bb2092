/** Where a page's time goes, by Chromium's sampling profiler and by its traces. */

import type { Page } from "playwright";

import { renderers } from "./measure";

/** Interval between two samples, in microseconds. */
const INTERVAL_US = 200;

/** A function with less than this share of the samples that are in functions is not listed. */
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
  const outside = (counts.get("(idle)") ?? 0) + (counts.get("(program)") ?? 0);
  return [...counts]
    .sort(([, one], [, other]) => other - one)
    .filter(([, count]) => count >= LEAST_SHARE * (samples.length - outside))
    .map(([name, count]) => `${((100 * count) / samples.length).toFixed(1).padStart(6)} % ${name}`)
    .join("\n");
}

/** Events that take less of the traced time than this are not listed. */
const LEAST_PERCENT = 0.1;

/** An event of Chromium's trace, with times in microseconds. */
interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  /** How long it took; `tdur` in CPU time. */
  readonly dur?: number;
  readonly tdur?: number;
  readonly args: { readonly elementCount?: number; readonly name?: string };
}

/**
 * What the page's main thread does while `run` runs, by Chromium's trace: CPU time of each kind of
 * event without the events inside it, how many there are, and how many elements had their styles
 * recalculated.
 */
export async function trace(page: Page, run: () => Promise<unknown>): Promise<string> {
  const browser = page.context().browser();
  if (browser === null) throw new Error("the page has no browser");
  const pids = new Set((await renderers(page)).map(Number));
  await browser.startTracing(page, {
    categories: ["devtools.timeline", "disabled-by-default-devtools.timeline", "__metadata"],
  });
  const beganMs = performance.now();
  await run();
  const seconds = (performance.now() - beganMs) / 1000;
  const traced = JSON.parse((await browser.stopTracing()).toString()) as {
    readonly traceEvents: readonly TraceEvent[];
  };
  const all = traced.traceEvents.filter(({ pid }) => pids.has(pid));
  const isMain = new Set(
    all
      .filter(({ args, name }) => name === "thread_name" && args.name === "CrRendererMain")
      .map(({ pid, tid }) => `${String(pid)} ${String(tid)}`),
  );
  const kinds = ownTimes(all.filter(({ pid, tid }) => isMain.has(`${String(pid)} ${String(tid)}`)));
  return [...kinds]
    .map(([name, { count, elements, us }]) => ({
      name,
      percent: us / 1e4 / seconds,
      rate: count / seconds,
      elements: elements / seconds,
    }))
    .filter(({ percent }) => percent >= LEAST_PERCENT)
    .sort((one, other) => other.percent - one.percent)
    .map(({ elements, name, percent, rate }) => {
      const of = elements > 0 ? `, ${elements.toFixed(0)} elements/s` : "";
      return `${percent.toFixed(1).padStart(6)} % ${name}, ${rate.toFixed(0)}/s${of}`;
    })
    .join("\n");
}

interface Kind {
  readonly us: number;
  readonly count: number;
  readonly elements: number;
}

/** CPU time by kind of event, without the time of the events inside it. */
function ownTimes(events: readonly TraceEvent[]): Map<string, Kind> {
  const kinds = new Map<string, Kind>();
  const add = (name: string, us: number, count: number, elements: number): void => {
    const before = kinds.get(name) ?? { us: 0, count: 0, elements: 0 };
    kinds.set(name, {
      us: before.us + us,
      count: before.count + count,
      elements: before.elements + elements,
    });
  };
  const complete = events
    .filter(({ dur, ph, tdur }) => ph === "X" && dur !== undefined && tdur !== undefined)
    .sort((one, other) => one.ts - other.ts || (other.dur ?? 0) - (one.dur ?? 0));
  /** The events around the current one, innermost last. */
  const open: { readonly name: string; readonly end: number }[] = [];
  for (const { args, dur = 0, name, tdur = 0, ts } of complete) {
    while ((open.at(-1)?.end ?? Infinity) <= ts) open.pop();
    const around = open.at(-1);
    if (around !== undefined) add(around.name, -tdur, 0, 0);
    add(name, tdur, 1, args.elementCount ?? 0);
    open.push({ name, end: ts + dur });
  }
  return kinds;
}
