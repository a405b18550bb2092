/** Loads the plotting code when the first plot is shown, and creates a widget's plot. */

/** Creates a plot, or reports why it can't. Calling the returned function removes it. */
export function placePlot<P extends { readonly end: () => void }>(
  create: () => Promise<P>,
  onPlaced: (plot: P) => void,
  onFailed: (why: string) => void,
): () => void {
  let isEnded = false;
  // A function, because the compiler assumes that a variable keeps the value it has checked.
  const hasEnded = (): boolean => isEnded;
  let plot: P | undefined;
  const place = async (): Promise<void> => {
    const made = await create();
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
