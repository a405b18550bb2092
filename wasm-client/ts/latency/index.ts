/** pvwire/latency: how long an update takes from the IOC's time stamp until it is seen. */

export {
  measureLatency,
  percentile,
  type Histogram,
  type Latency,
  type LatencyOptions,
  type LatencySnapshot,
} from "./latency.js";
export { watchRelayClock, type RelayClock } from "./relay_clock.js";
