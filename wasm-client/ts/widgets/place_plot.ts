/** Loads the code that draws plots when the first plot is shown, and gives a widget its plot. */

import type { Plot, PlotOptions } from "./plot.js";

/** Creates a plot in `host`, or reports why it can't. Calling the returned function removes it. */
export function placePlot(
  host: HTMLElement | null,
  options: PlotOptions,
  onPlaced: (plot: Plot) => void,
  onFailed: (why: string) => void,
): () => void {
  let isEnded = false;
  // A function, because the compiler takes a value that it has seen for what it is later.
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
