/** What `bench.ts` can ask of this page. */

import { arrays } from "./arrays";
import { compileTimes } from "./compile";
import { lastRead, recordScans, runWay, startWay } from "./costs";
import { latency, latencyIn } from "./latency";
import { showWidgets } from "./widgets";

/** Fetched when they are measured: their style sheets are for the whole page. */
const showWall = async (url: string) => (await import("./wall")).showWall(url);
const showCamera = async (url: string, name: string) =>
  (await import("./camera")).showCamera(url, name);

const measurements = {
  arrays,
  compileTimes,
  lastRead,
  latency,
  latencyIn,
  recordScans,
  runWay,
  showCamera,
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
