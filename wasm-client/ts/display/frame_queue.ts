/**
 * Spreads the updates of widgets over animation frames: a display with more updates than the machine
 * can draw shows each value less often. It still scrolls, answers clicks, and shows alarms first.
 */

import { useCallback, useSyncExternalStore } from "react";

import type { Readable } from "../types.js";

/**
 * Main-thread time of one frame, of the 16.7 ms that it has: the browser's other work needs the rest. Less
 * where frames are late all the same, because other threads draw them.
 */
const FRAME_MS = { most: 9, least: 3 };

/** The same while more changes of alarm or connection wait than this, as when a display is opened: better one long frame than many. */
const MANY_URGENT = { updates: 200, frameMs: 40 };

/** The time after the frame before by which a frame is late. */
const LATE_MS = 20;

/** What a frame that is late takes from the time of the next ones, and each other one adds. */
const CHANGE_MS = { late: -2, other: 0.1 };

/** If a frame takes longer, whatever it updates: each update is made in about this time. */
const ROUND_MS = 600;

/** An update waits at most this long, whatever a frame then takes. */
const MAX_WAIT_MS = 1000;

/** The same of a change of alarm or connection. */
const MAX_URGENT_WAIT_MS = 200;

/** Updates of one frame at least. */
const LEAST = 30;

/** First guesses at a frame's time without updates, and at an update's, with style, layout and paint. */
const FIRST = { frameMs: 2, updateMs: 0.03 };

/** Share of the newest frame in what is known of their times. */
const NEWEST = 1 / 16;

/** Main-thread time of the next frame, which began `sinceMs` after the one before, whose time was `frameMs`. */
export function nextFrameMs(frameMs: number, sinceMs: number): number {
  const changed = frameMs + (sinceMs > LATE_MS ? CHANGE_MS.late : CHANGE_MS.other);
  return Math.max(FRAME_MS.least, Math.min(FRAME_MS.most, changed));
}

type Update = () => void;

/** The line through the times of frames by their updates: what a frame takes by itself, and each update. */
class Costs {
  #frameMs = FIRST.frameMs;
  #updateMs = FIRST.updateMs;
  /** Means of the newest frames. */
  #updates = 0;
  #ms = 0;
  #spread = 0;
  #both = 0;

  learn(updates: number, ms: number): void {
    const [more, longer] = [updates - this.#updates, ms - this.#ms];
    this.#updates += more * NEWEST;
    this.#ms += longer * NEWEST;
    this.#spread += (more * more - this.#spread) * NEWEST;
    this.#both += (more * longer - this.#both) * NEWEST;
    // Frames that are alike say nothing about the difference.
    if (this.#spread > LEAST * LEAST) {
      this.#updateMs = Math.max(0.005, Math.min(1, this.#both / this.#spread));
    }
    this.#frameMs = Math.max(0, this.#ms - this.#updateMs * this.#updates);
  }

  updatesIn(ms: number): number {
    return Math.floor((ms - this.#frameMs) / this.#updateMs);
  }
}

/**
 * Updates that wait, taken in turns. They keep their places, so that those of one frame are beside each other: a
 * browser draws a whole part of the page again if one widget in it has changed.
 */
class Round {
  /** When each began to wait; `undefined`: it doesn't. */
  #members = new Map<Update, number | undefined>();
  #turn = this.#members.entries();
  /** How many wait. */
  size = 0;

  join(update: Update): void {
    if (!this.#members.has(update)) this.#members.set(update, undefined);
  }

  leave(update: Update): void {
    this.delete(update);
    this.#members.delete(update);
  }

  add(update: Update): void {
    if (this.#members.get(update) !== undefined) return;
    this.#members.set(update, performance.now());
    this.size += 1;
  }

  /** It waits no longer. */
  delete(update: Update): void {
    if (this.#members.get(update) === undefined) return;
    this.#members.set(update, undefined);
    this.size -= 1;
  }

  /** The next one that waits, which then waits no longer. */
  next(): Update | undefined {
    while (this.size > 0) {
      const { done, value } = this.#turn.next();
      if (done === true) {
        this.#turn = this.#members.entries();
      } else if (value[1] !== undefined) {
        this.delete(value[0]);
        return value[0];
      }
    }
    return undefined;
  }

  /** Those that have waited since before a time, which then wait no longer. */
  takeOlder(thanMs: number): Update[] {
    const late: Update[] = [];
    for (const [update, since = Infinity] of this.#members) {
      if (since < thanMs) late.push(update);
    }
    for (const update of late) this.delete(update);
    return late;
  }
}

/** The updates of all displays of a page. */
export class FrameQueue {
  #waiting = new Round();
  /** Changes of alarm and connection, which are shown first. */
  #urgent = new Map<Update, number>();
  #costs = new Costs();
  #frameMs = FRAME_MS.most;
  /** Updates that this frame may still make. */
  #left = this.#costs.updatesIn(this.#frameMs);
  #isTicking = false;
  #frame = { began: 0, updates: 0 };
  #hasTimer = false;
  #channel: MessageChannel | undefined;

  /** Calls `update` now if the frame has time for it, else in one of the next frames. */
  add(update: Update, isUrgent = false): void {
    if (typeof requestAnimationFrame !== "function" || document.hidden) {
      this.#waiting.delete(update);
      this.#urgent.delete(update);
      update();
      return;
    }
    // What passed before is no part of this frame.
    if (!this.#isTicking) this.#frame.began = performance.now();
    this.#tickSoon();
    const isFirst = this.#urgent.size === 0 && (isUrgent || this.#waiting.size === 0);
    if (isFirst && this.#left > 0) {
      this.#waiting.delete(update);
      this.#call(update);
      return;
    }
    if (isUrgent) {
      this.#waiting.delete(update);
      if (!this.#urgent.has(update)) this.#urgent.set(update, performance.now());
    } else if (!this.#urgent.has(update)) {
      this.#waiting.add(update);
    }
    // For a page that becomes hidden meanwhile, or whose painting stalls.
    if (!this.#hasTimer) this.#lateSoon();
  }

  #lateSoon(): void {
    this.#hasTimer = true;
    setTimeout(this.#late, MAX_URGENT_WAIT_MS);
  }

  /** Gives an update its place among those that wait: widgets beside each other should be so here too. */
  join(update: Update): void {
    this.#waiting.join(update);
  }

  /** The widget is gone. */
  remove(update: Update): void {
    this.#waiting.leave(update);
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
    const now = performance.now();
    const sinceMs = now - this.#frame.began;
    if (this.#frame.updates > 0) this.#frameMs = nextFrameMs(this.#frameMs, sinceMs);
    const due = (this.#waiting.size * Math.min(ROUND_MS, sinceMs)) / ROUND_MS;
    this.#frame = { began: now, updates: 0 };
    const isBusy = this.#urgent.size > MANY_URGENT.updates;
    const frameMs = isBusy ? MANY_URGENT.frameMs : this.#frameMs;
    this.#left = Math.max(LEAST, this.#costs.updatesIn(frameMs), Math.ceil(due));
    this.#drain();
    if (!isActive) return;
    this.#tickSoon();
    // Arrives after the frame's layout and paint.
    this.#channel ??= this.#open();
    this.#channel.port2.postMessage(undefined);
  };

  #drain(): void {
    const dueMs = performance.now() - MAX_URGENT_WAIT_MS;
    for (const [update, since] of this.#urgent) {
      if (this.#left <= 0 && since > dueMs) break;
      this.#urgent.delete(update);
      this.#call(update);
    }
    while (this.#left > 0) {
      const update = this.#waiting.next();
      if (update === undefined) return;
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
    const dueMs = performance.now() - MAX_WAIT_MS;
    for (const update of this.#waiting.takeOlder(dueMs)) this.#call(update);
    if (!this.#isEmpty) this.#lateSoon();
  };

  #open(): MessageChannel {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      const { began, updates } = this.#frame;
      // The page's other work of the frame counts too: it takes the same time.
      if (updates > 0) this.#costs.learn(updates, performance.now() - began);
    };
    return channel;
  }
}

/** Shared by all displays. */
export const frameQueue = new FrameQueue();

const nothing = (): undefined => undefined;

/** The present value of a store, which the frame queue paces. Changes that `isUrgent` tells come first. */
export function usePaced<T>(
  store: Readable<T | undefined>,
  isUrgent: (before: T | undefined, now: T | undefined) => boolean,
): T | undefined {
  const subscribe = useCallback(
    (listener: () => void) => {
      let seen = store.getSnapshot();
      // A separate function: two widgets may have one listener.
      const update = (): void => {
        seen = store.getSnapshot();
        listener();
      };
      frameQueue.join(update);
      const end = store.subscribe(() => {
        frameQueue.add(update, isUrgent(seen, store.getSnapshot()));
      });
      return () => {
        end();
        frameQueue.remove(update);
      };
    },
    [store, isUrgent],
  );
  return useSyncExternalStore(subscribe, store.getSnapshot, nothing);
}
