/** How busy a page is: with a chart of a day with ten updates a second, and with the demo's wall of 5,000 readbacks. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import { RELAY } from "../../testbed/ts/paths";
import { Relay } from "../../testbed/ts/relay";
import { type Bench, checkArrived, mainThread, type Measurement, ratesOf } from "./measure";
import type { Day } from "./page/chart";
import { RATE_HZ } from "./pvs";
import type { Round } from "./report";

const HOURS = 24;
const STEPS = HOURS * 36_000;
const NAME = "BENCH:N00000";
const BEGIN_MS = Date.UTC(2026, 10, 1);

const START_MS = 120_000;
const LOOK_MS = 200;

/** What the page has; runs there. */
declare const measurements: NonNullable<Window["measurements"]>;

export const chart: Measurement = {
  name: "browser-chart",
  question: "How soon is a day's curve drawn, has it every peak, and how smoothly does it pan?",
  about:
    `A \`HistoryPlot\` of one PV, on a screen of 1,600 × 1,200, whose ${STEPS.toLocaleString("en")} points of` +
    ` ${String(HOURS)} h the relay keeps in memory; they come from a recording that is replayed faster than its` +
    " time stamps say. From the click until each column of pixels reaches the largest and the smallest of all of its" +
    " points, which are computed in the page. Then the wheel with Shift moves six hours by a tenth at each frame of" +
    " the screen.",
  settings: { points: STEPS, hours: HOURS },
  labels: {
    drawn_ms: ["click until drawn", "ms"],
    columns_lost: ["columns without their largest or smallest point", ""],
    columns: ["columns compared", ""],
    pan_frames_per_s: ["frames while it pans", "/s"],
    pan_longest_ms: ["the longest frame", "ms"],
    pan_curve_percent: ["columns with a curve meanwhile", "%"],
    pan_main_thread_percent: ["main thread's CPU time meanwhile", "%"],
  },
  points: [{ label: "24 h × 10 Hz", measure: measureChart }],
};

async function measureChart(bench: Bench): Promise<Round> {
  const folder = mkdtempSync(path.join(tmpdir(), "pvwire-chart-"));
  try {
    const file = path.join(folder, "day");
    const program = path.join(path.dirname(RELAY), "pvwire-bench");
    const words = ["recording", "--file", file, "--pvs", "1", "--seconds", String(HOURS * 3600)];
    execFileSync(program, words);
    const relay = await Relay.start(bench.network, [
      `--replay=${file}`,
      `--history=${NAME}=48h`,
      `--allow-origin=${bench.pageUrl}`,
    ]);
    try {
      await untilKept(relay.port);
      const url = `ws://127.0.0.1:${String(relay.port)}/ws`;
      return await show(bench, { url, name: NAME, steps: STEPS, beginMs: BEGIN_MS });
    } finally {
      await relay.kill();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function untilKept(port: number): Promise<void> {
  const began = Date.now();
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${String(port)}/metrics`);
    const kept = Number(/^pvwire_history_samples (\d+)/m.exec(await answer.text())?.[1]);
    if (kept === STEPS) return;
    if (Date.now() - began > START_MS) throw new Error(`${String(kept)} points are kept`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

async function show({ ms, open }: Bench, day: Day): Promise<Round> {
  return await open(async (page) => {
    await page.evaluate(async (day) => {
      await measurements().showChart(day);
    }, day);
    const drawn = await page.evaluate(async (day) => await measurements().drawDay(day), day);
    const used = await mainThread(page);
    const before = { cpuNs: used(), atMs: performance.now() };
    const panned = await page.evaluate(async (ms) => await measurements().pan(ms), ms);
    const seconds = (performance.now() - before.atMs) / 1000;
    return {
      drawn_ms: drawn.ms,
      columns_lost: drawn.lost,
      columns: drawn.columns,
      pan_frames_per_s: panned.framesPerS,
      pan_longest_ms: panned.longestMs,
      pan_curve_percent: 100 * panned.withCurve,
      pan_main_thread_percent: (used() - before.cpuNs) / 1e7 / seconds,
    };
  });
}

const READBACKS = 5000;

export const wall: Measurement = {
  name: "browser-wall",
  question: "How busy is a page with 5,000 readbacks?",
  about:
    `The demo's own component, a canvas, on a screen of 1,600 × 1,200: ${READBACKS.toLocaleString("en")}` +
    ` PVs × ${String(RATE_HZ)} Hz arrive, and those that are in view are painted.`,
  settings: { pvs: READBACKS, rate_hz: RATE_HZ },
  labels: {
    frames_per_s: ["screen frames", "/s"],
    main_thread_percent: ["main thread", "%"],
    main_thread_cpu_percent: ["its CPU time", "%"],
    script_percent: ["of it JavaScript", "%"],
    updates_per_s: ["updates that arrived", "/s"],
  },
  points: [
    {
      label: "5,000 readbacks",
      measure: async (bench) =>
        await bench.open(async (page) => {
          const totals = await page.evaluateHandle(
            async (url) => await measurements().showWall(url),
            bench.relayUrl,
          );
          const rates = await ratesOf(page, bench, () => totals.evaluate((read) => read()));
          checkArrived(rates.updates, READBACKS * RATE_HZ);
          return {
            frames_per_s: rates.paints,
            main_thread_percent: 100 * rates.TaskDuration,
            main_thread_cpu_percent: 100 * rates.cpuSeconds,
            script_percent: 100 * rates.ScriptDuration,
            updates_per_s: rates.updates,
          };
        }),
    },
  ],
};
