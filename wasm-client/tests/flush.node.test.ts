/** When changes reach listeners: with the next frame that is painted, or after a while without one. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Flusher } from "../ts/store/flush.js";

let paint: (() => void) | undefined;
let flushes = 0;
const flusher = new Flusher(() => {
  flushes += 1;
});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("requestAnimationFrame", (callback: () => void) => {
    paint = callback;
    return 1;
  });
  vi.stubGlobal("cancelAnimationFrame", () => {
    paint = undefined;
  });
  flushes = 0;
});

afterEach(() => {
  flusher.cancel();
  expect([vi.getTimerCount(), paint]).toEqual([0, undefined]);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const painted = (): void => {
  const callback = paint;
  paint = undefined;
  callback?.();
};

describe("changes", () => {
  it("reach listeners once a frame, with one timer for many frames", () => {
    const set = vi.spyOn(globalThis, "setTimeout");
    for (let frame = 1; frame <= 5; frame += 1) {
      flusher.later();
      flusher.later();
      vi.advanceTimersByTime(16);
      painted();
      expect(flushes).toBe(frame);
    }
    expect(set).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(1000);
    expect([flushes, vi.getTimerCount()]).toEqual([5, 0]);
  });

  it("wait at most 250 ms for a frame that never comes", () => {
    for (const before of [0, 1, 60, 124, 125, 126, 249, 1000]) {
      flusher.later();
      painted();
      vi.advanceTimersByTime(before);
      flushes = 0;
      flusher.later();
      vi.advanceTimersByTime(124);
      expect(flushes, `${String(before)} ms after another frame`).toBe(0);
      vi.advanceTimersByTime(126);
      expect([flushes, paint]).toEqual([1, undefined]);
    }
  });

  it("wait 250 ms in a hidden page, and 16 ms where nothing is painted", () => {
    vi.stubGlobal("document", { hidden: true });
    flusher.later();
    vi.advanceTimersByTime(249);
    expect(flushes).toBe(0);
    vi.advanceTimersByTime(1);
    expect(flushes).toBe(1);
    vi.stubGlobal("document", undefined);
    flusher.later();
    vi.advanceTimersByTime(16);
    expect(flushes).toBe(2);
  });

  it("that were given up are not flushed", () => {
    flusher.later();
    flusher.cancel();
    vi.advanceTimersByTime(1000);
    expect([flushes, paint]).toEqual([0, undefined]);
  });
});
