/** The curve of an array. Loaded with the first plot of one. */

import { decimate } from "./decimate.js";
import { createPlot, type PlotOptions } from "./plot.js";

export interface Waveform {
  readonly show: (array: ArrayLike<number | bigint>) => void;
  readonly end: () => void;
}

export async function createWaveform(
  host: HTMLElement | null,
  options: PlotOptions,
): Promise<Waveform> {
  if (host === null) return { show: () => undefined, end: () => undefined };
  const plot = await createPlot(host, options);
  return {
    show: (array) => {
      plot.draw(decimate(array, plot.columns), { x: [0, Math.max(1, array.length - 1)] });
    },
    end: plot.end,
  };
}
