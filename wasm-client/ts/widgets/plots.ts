/** What widgets with curves load with the first of them. */

import { decimate } from "./decimate.js";
import { createPlot } from "./plot.js";
import type { Range } from "./scale.js";

export interface Waveform {
  /** `yRange` are the ends of the vertical axis; otherwise they are those of the array. */
  readonly show: (array: ArrayLike<number | bigint>, yRange: Range | undefined) => void;
  readonly end: () => void;
}

export async function createWaveform(host: HTMLElement | null): Promise<Waveform> {
  if (host === null) return { show: () => undefined, end: () => undefined };
  const plot = await createPlot(host);
  return {
    show: (array, y) => {
      plot.draw(decimate(array, plot.columns), { x: [0, Math.max(1, array.length - 1)], y });
    },
    end: plot.end,
  };
}

export { createStrip } from "./strip.js";
