/** What widgets with curves load with the first of them. */

export { createStrip } from "./strip.js";
export { createWaveform } from "./waveform.js";
