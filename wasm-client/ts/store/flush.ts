/** Calls listeners at most once per animation frame. */

/**
 * How long changes wait at least, and at most twice as long, if no frame is painted: in a hidden page,
 * or when painting stalls.
 */
const HIDDEN_MS = 125;

/** How long changes wait if nothing is ever painted, as in Node. */
const NO_PAGE_MS = 16;

const paints = (): boolean =>
  typeof requestAnimationFrame === "function" && typeof document === "object";

/** Combines calls of `later` into one call of `flush`. */
export class Flusher {
  #flush: () => void;
  #isWaiting = false;
  #frame = 0;
  /**
   * In addition to the animation frame: a page that becomes hidden meanwhile is no longer painted. One
   * timer for many frames, because to set one takes as long as a hundred updates.
   */
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** A flush was requested since the timer last ended. */
  #isNew = false;

  constructor(flush: () => void) {
    this.#flush = flush;
  }

  later(): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#isNew = true;
    if (paints() && !document.hidden) this.#frame = requestAnimationFrame(this.#run);
    this.#timer ??= setTimeout(this.#look, paints() ? HIDDEN_MS : NO_PAGE_MS);
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (paints()) cancelAnimationFrame(this.#frame);
    this.#isWaiting = false;
  }

  #run = (): void => {
    this.#isWaiting = false;
    this.#flush();
  };

  /** Flushes what has waited since the timer last ended, or waits once more. */
  #look = (): void => {
    const isNew = this.#isNew && paints();
    this.#isNew = false;
    this.#timer = isNew ? setTimeout(this.#look, HIDDEN_MS) : undefined;
    if (!isNew && this.#isWaiting) {
      this.cancel();
      this.#flush();
    }
  };
}
