/** What `bench.ts` can ask of this page. */

import { arrays } from "./arrays";
import type { Day } from "./chart";
import { compileTimes } from "./compile";
import { lastRead, recordScans, runWay, startWay } from "./costs";
import { latency, latencyIn } from "./latency";
import { showWidgets } from "./widgets";

/** Fetched when they are measured: their style sheets are for the whole page. */
const showWall = async (url: string) => (await import("./wall")).showWall(url);
const showCamera = async (url: string, name: string) =>
  (await import("./camera")).showCamera(url, name);
const showChart = async (day: Day): Promise<void> => {
  await (await import("./chart")).showChart(day);
};
const drawDay = async (day: Day) => await (await import("./chart")).drawDay(day);
const pan = async (ms: number) => await (await import("./chart")).pan(ms);

const measurements = {
  arrays,
  compileTimes,
  drawDay,
  lastRead,
  latency,
  latencyIn,
  pan,
  recordScans,
  runWay,
  showCamera,
  showChart,
  showWall,
  showWidgets,
  startWay,
};

declare global {
  interface Window {
    measurements?: () => typeof measurements;
  }
}

window.measurements = () => measurements;
