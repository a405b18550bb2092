/** Loads the plotting code when the first plot is shown, and creates a widget's plot. */

import type { Plot, PlotOptions } from "./plot.js";

/** Creates a plot in `host`, or reports why it can't. Calling the returned function removes it. */
export function placePlot(
  host: HTMLElement | null,
  options: PlotOptions,
  onPlaced: (plot: Plot) => void,
  onFailed: (why: string) => void,
): () => void {
  let isEnded = false;
  // A function, because the compiler assumes that a variable keeps the value it has checked.
  const hasEnded = (): boolean => isEnded;
  let plot: Plot | undefined;
  const place = async (): Promise<void> => {
    const { createPlot } = await import("./plot.js");
    if (host === null || hasEnded()) return;
    const made = await createPlot(host, options);
    plot = made;
    if (hasEnded()) made.end();
    else onPlaced(made);
  };
  place().catch((error: unknown) => {
    if (!isEnded) onFailed(error instanceof Error ? error.message : String(error));
  });
  return () => {
    isEnded = true;
    plot?.end();
  };
}
