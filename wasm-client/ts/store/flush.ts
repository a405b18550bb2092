/** Calls listeners at most once per animation frame. */

/** How long changes wait if no frame is painted: in a hidden page, or when painting stalls. */
const HIDDEN_MS = 250;

/** How long changes wait if nothing is ever painted, as in Node. */
const NO_PAGE_MS = 16;

/** Combines calls of `later` into one call of `flush`. */
export class Flusher {
  #flush: () => void;
  #frame: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(flush: () => void) {
    this.#flush = flush;
  }

  later(): void {
    if (this.#timer !== undefined) return;
    const paints = typeof requestAnimationFrame === "function" && typeof document === "object";
    if (paints && !document.hidden) this.#frame = requestAnimationFrame(this.#run);
    // In addition to the animation frame: a page that becomes hidden meanwhile is no longer
    // painted.
    this.#timer = setTimeout(this.#run, paints ? HIDDEN_MS : NO_PAGE_MS);
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
    this.#frame = undefined;
  }

  #run = (): void => {
    this.cancel();
    this.#flush();
  };
}
