/** What can `bench.ts` ask of this page? */

import { arrays } from "./arrays";
import { lastRead, recordScans, runWay, startWay } from "./costs";
import { latency, latencyIn } from "./latency";
import { showWidgets } from "./widgets";

const measurements = {
  arrays,
  lastRead,
  latency,
  latencyIn,
  recordScans,
  runWay,
  showWidgets,
  startWay,
};

declare global {
  interface Window {
    measurements?: () => typeof measurements;
  }
}

window.measurements = () => measurements;
