/**
 * Spreads the updates of widgets over animation frames: a display with more updates than the machine
 * can draw shows each value less often. It still scrolls, answers clicks, and shows alarms first.
 */

/** Main-thread time for the widgets of one frame, of the 16.7 ms that it has. */
const FRAME_MS = 11;

/** An update waits at most this long, whatever a frame then takes. */
const MAX_WAIT_MS = 1000;

/** The same of a change of alarm or connection. */
const MAX_URGENT_WAIT_MS = 200;

/** Updates of one frame at least. */
const LEAST = 30;

/** A first guess at an update's time, with style, layout and paint. */
const FIRST_COST_MS = 0.04;

type Update = () => void;

/** The updates of all displays of a page. */
export class FrameQueue {
  /** When each began to wait, the oldest first. */
  #waiting = new Map<Update, number>();
  /** Changes of alarm and connection, which are shown first. */
  #urgent = new Map<Update, number>();
  #costMs = FIRST_COST_MS;
  /** Updates that this frame may still make. */
  #left = Math.floor(FRAME_MS / FIRST_COST_MS);
  #isTicking = false;
  #frame = { began: 0, updates: 0 };
  #hasTimer = false;
  #channel: MessageChannel | undefined;

  /** Calls `update` now if the frame has time for it, else in one of the next frames. */
  add(update: Update, isUrgent = false): void {
    if (typeof requestAnimationFrame !== "function" || document.hidden) {
      this.remove(update);
      update();
      return;
    }
    this.#tickSoon();
    const isFirst = this.#urgent.size === 0 && (isUrgent || this.#waiting.size === 0);
    if (isFirst && this.#left > 0) {
      this.#waiting.delete(update);
      this.#call(update);
      return;
    }
    const since = this.#waiting.get(update) ?? performance.now();
    if (isUrgent) this.#waiting.delete(update);
    if (isUrgent) this.#urgent.set(update, this.#urgent.get(update) ?? since);
    else if (!this.#urgent.has(update)) this.#waiting.set(update, since);
    // For a page that becomes hidden meanwhile, or whose painting stalls.
    if (!this.#hasTimer) this.#lateSoon();
  }

  #lateSoon(): void {
    this.#hasTimer = true;
    setTimeout(this.#late, MAX_URGENT_WAIT_MS);
  }

  /** The widget is gone. */
  remove(update: Update): void {
    this.#waiting.delete(update);
    this.#urgent.delete(update);
  }

  #call(update: Update): void {
    this.#left -= 1;
    this.#frame.updates += 1;
    try {
      update();
    } catch (error) {
      reportError(error);
    }
  }

  #tickSoon(): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    requestAnimationFrame(this.#tick);
  }

  #tick = (): void => {
    this.#isTicking = false;
    const isActive = this.#frame.updates > 0 || !this.#isEmpty;
    this.#frame = { began: performance.now(), updates: 0 };
    this.#left = Math.max(LEAST, Math.floor(FRAME_MS / this.#costMs));
    this.#drain();
    if (!isActive) return;
    this.#tickSoon();
    // Arrives after the frame's layout and paint.
    this.#channel ??= this.#open();
    this.#channel.port2.postMessage(undefined);
  };

  #drain(): void {
    this.#drainOne(this.#urgent, MAX_URGENT_WAIT_MS);
    this.#drainOne(this.#waiting, MAX_WAIT_MS);
  }

  #drainOne(updates: Map<Update, number>, maxWaitMs: number): void {
    if (updates.size === 0) return;
    const dueMs = performance.now() - maxWaitMs;
    for (const [update, since] of updates) {
      if (this.#left <= 0 && since > dueMs) return;
      updates.delete(update);
      this.#call(update);
    }
  }

  get #isEmpty(): boolean {
    return this.#waiting.size === 0 && this.#urgent.size === 0;
  }

  #late = (): void => {
    this.#hasTimer = false;
    this.#left = document.hidden ? Infinity : 0;
    this.#drain();
    if (!this.#isEmpty) this.#lateSoon();
  };

  #open(): MessageChannel {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      const { began, updates } = this.#frame;
      if (updates === 0) return;
      // The page's other work of the frame counts too: it takes the same time.
      const costMs = (performance.now() - began) / updates;
      this.#costMs += (costMs - this.#costMs) / 8;
    };
    return channel;
  }
}

/** Shared by all displays. */
export const frameQueue = new FrameQueue();
