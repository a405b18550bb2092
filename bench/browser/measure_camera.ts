/** A page that shows a large camera for minutes: frames shown and memory. */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";

import type { CDPSession, Page } from "playwright";

import { Child } from "../../testbed/ts/child";
import { PYTHON } from "../../testbed/ts/paths";
import { mainThread, renderers, type Bench, type Measurement } from "./measure";
import type { Round } from "./report";

const SIZE = 2048;
const RATE_HZ = 10;

const START_MS = 30_000;
const SAMPLE_MS = 1000;

/** What the page has; runs there. */
declare const measurements: NonNullable<Window["measurements"]>;

export const camera: Measurement = {
  name: "browser-camera",
  question: "Does a page show a large camera's newest frame for minutes, and in bounded memory?",
  about:
    `${String(SIZE)} × ${String(SIZE)} pixels of 16 bits at ${String(RATE_HZ)} Hz, an NTNDArray of a` +
    " pvAccess server, through the `ImageView` widget, which scales colours to the lowest and highest pixel of" +
    " each frame. A frame counts as shown when it is on the canvas; that it is the newest that arrived, and" +
    " newer than the one before, is checked for each by its pixels and its number. Memory once a second: the" +
    " renderer process, and JavaScript's heap with its buffers.",
  settings: { pixels: SIZE * SIZE, bits: 16, rate_hz: RATE_HZ },
  labels: {
    made_per_s: ["frames that the camera made", "/s"],
    arrived_per_s: ["frames that arrived", "/s"],
    shown_per_s: ["frames shown", "/s"],
    left_out_per_s: ["frames that the relay left out", "/s"],
    age_p50_ms: ["time stamp to canvas, median", "ms"],
    age_p99_ms: ["time stamp to canvas, 99 %", "ms"],
    age_max_ms: ["time stamp to canvas, longest", "ms"],
    main_thread_cpu_percent: ["main thread's CPU time", "%"],
    memory_first_mb: ["memory of the process, first quarter", "MB"],
    memory_last_mb: ["memory of the process, last quarter", "MB"],
    memory_max_mb: ["memory of the process, most", "MB"],
    memory_slope_mb_per_min: ["memory of the process, slope", "MB/min"],
    heap_last_mb: ["heap and buffers, last quarter", "MB"],
    heap_slope_mb_per_min: ["heap and buffers, slope", "MB/min"],
    seconds: ["measured for", "s"],
  },
  mostRounds: 1,
  points: [{ label: "2,048 × 2,048 × 16 bits", measure: watchCamera }],
};

async function watchCamera({ longMs, network, open, relayUrl, warmUpMs }: Bench): Promise<Round> {
  const name = `B${randomBytes(4).toString("hex").toUpperCase()}:CAMERA`;
  const server = Child.start({
    what: "the camera",
    command: PYTHON,
    args: ["-u", path.join(import.meta.dirname, "camera.py"), name, String(SIZE), String(RATE_HZ)],
    env: network.env,
  });
  try {
    await server.waitForOutput(/serving/, START_MS);
    return await open(async (page) => await watch(page, relayUrl, name, warmUpMs, longMs));
  } finally {
    await server.kill();
  }
}

interface Sample {
  readonly minutes: number;
  readonly memoryMb: number;
  readonly heapMb: number;
}

async function watch(
  page: Page,
  url: string,
  name: string,
  warmUpMs: number,
  ms: number,
): Promise<Round> {
  const totals = await page.evaluateHandle(
    async ([url, name]) => await measurements().showCamera(url, `pva://${name}`),
    [url, name] as const,
  );
  const cdp = await page.context().newCDPSession(page);
  const [used, memory] = [await mainThread(page), await memoryOf(page, cdp)];
  const now = async () => ({
    ...(await totals.evaluate((read) => read())),
    atMs: performance.now(),
    cpuMs: used() / 1e6,
  });
  const began = performance.now();
  while ((await now()).shown < RATE_HZ) {
    if (performance.now() - began > START_MS) throw new Error("the page shows no frames");
    await page.waitForTimeout(SAMPLE_MS);
  }
  // The buffers that go around are there after some frames.
  await page.waitForTimeout(3 * warmUpMs);
  const before = await now();
  const samples: Sample[] = [];
  while (performance.now() - before.atMs < ms) {
    await page.waitForTimeout(SAMPLE_MS);
    samples.push({ minutes: (performance.now() - before.atMs) / 60_000, ...(await memory()) });
  }
  const after = await now();
  if (after.wrong > 0) {
    throw new Error(
      `${String(after.wrong)} of ${String(after.shown)} frames shown are not the newest`,
    );
  }
  const seconds = (after.atMs - before.atMs) / 1000;
  const perSecond = (of: "newest" | "arrived" | "shown" | "leftOut"): number =>
    (after[of] - before[of]) / seconds;
  const ages = after.agesMs.toSorted((a, b) => a - b);
  const age = (share: number): number => ages[Math.floor((ages.length - 1) * share)] ?? NaN;
  const quarter = Math.ceil(samples.length / 4);
  const mean = (some: readonly Sample[], of: "memoryMb" | "heapMb"): number =>
    some.reduce((sum, sample) => sum + sample[of], 0) / some.length;
  return {
    made_per_s: perSecond("newest"),
    arrived_per_s: perSecond("arrived"),
    shown_per_s: perSecond("shown"),
    left_out_per_s: perSecond("leftOut"),
    age_p50_ms: age(0.5),
    age_p99_ms: age(0.99),
    age_max_ms: age(1),
    main_thread_cpu_percent: (after.cpuMs - before.cpuMs) / seconds / 10,
    memory_first_mb: mean(samples.slice(0, quarter), "memoryMb"),
    memory_last_mb: mean(samples.slice(-quarter), "memoryMb"),
    memory_max_mb: Math.max(...samples.map(({ memoryMb }) => memoryMb)),
    memory_slope_mb_per_min: slope(samples, "memoryMb"),
    heap_last_mb: mean(samples.slice(-quarter), "heapMb"),
    heap_slope_mb_per_min: slope(samples, "heapMb"),
    seconds,
  };
}

/** Reads what the page's process and its JavaScript hold. */
async function memoryOf(
  page: Page,
  cdp: CDPSession,
): Promise<() => Promise<Omit<Sample, "minutes">>> {
  const files = (await renderers(page)).map((id) => `/proc/${id}/status`);
  const residentKb = (file: string): number =>
    Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(file, "utf8"))?.[1]);
  return async () => {
    // As the protocol has it since Chromium 131; buffers of arrays are not in `usedSize`.
    const heap: { usedSize: number; backingStorageSize?: number } =
      await cdp.send("Runtime.getHeapUsage");
    return {
      memoryMb: files.reduce((sum, file) => sum + residentKb(file), 0) / 1024,
      heapMb: (heap.usedSize + (heap.backingStorageSize ?? 0)) / 2 ** 20,
    };
  };
}

/** Of the straight line that fits best. */
function slope(samples: readonly Sample[], of: "memoryMb" | "heapMb"): number {
  const mean = (read: (sample: Sample) => number): number =>
    samples.reduce((sum, sample) => sum + read(sample), 0) / samples.length;
  const [at, height] = [mean(({ minutes }) => minutes), mean((sample) => sample[of])];
  const rise = mean((sample) => (sample.minutes - at) * (sample[of] - height));
  return rise / mean(({ minutes }) => (minutes - at) ** 2);
}
