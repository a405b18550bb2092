/** Updates of a display are spread over frames, alarms first, and none waits for long. */

import { expect, it } from "vitest";

import { FrameQueue, nextFrameMs } from "../ts/display/frame_queue.js";

const UPDATES = 3000;

/** As long as the layout of a text takes. */
function work(): void {
  const end = performance.now() + 0.05;
  while (performance.now() < end);
}

const nextFrame = (): Promise<unknown> => new Promise(requestAnimationFrame);

it("makes few updates at once, makes few at a time, and each of them within its time", async () => {
  const queue = new FrameQueue();
  const made: number[] = [];
  const began = performance.now();
  for (let at = 0; at < UPDATES; at += 1) {
    queue.add(() => {
      work();
      made.push(at);
    });
  }
  const atOnce = made.length;
  expect(atOnce).toBeGreaterThan(0);
  expect(atOnce).toBeLessThan(UPDATES / 4);
  await nextFrame();
  await nextFrame();
  expect(made.length).toBeGreaterThan(atOnce);
  while (made.length < UPDATES) {
    await nextFrame();
    expect(performance.now() - began).toBeLessThan(20_000);
  }
  // In their order.
  expect(made).toEqual(Array.from({ length: UPDATES }, (_, at) => at));
});

it("makes an alarm's update before those that wait, once, and forgets removed ones", async () => {
  const queue = new FrameQueue();
  const made: string[] = [];
  const update = (name: string) => (): void => {
    work();
    made.push(name);
  };
  const alarm = update("alarm");
  const removed = update("removed");
  for (let at = 0; at < UPDATES; at += 1) queue.add(update("value"));
  made.length = 0;
  queue.add(alarm);
  queue.add(removed);
  queue.add(alarm, true);
  queue.add(alarm);
  queue.remove(removed);
  while (made.filter((name) => name === "value").length < UPDATES / 2) await nextFrame();
  expect(made[0]).toBe("alarm");
  expect(made.filter((name) => name === "alarm")).toEqual(["alarm"]);
  expect(made).not.toContain("removed");
});

it("an update that fails keeps no other from being made", async () => {
  const queue = new FrameQueue();
  const failed: unknown[] = [];
  const listen = (event: ErrorEvent): void => {
    event.preventDefault();
    event.stopImmediatePropagation();
    failed.push(event.error);
  };
  window.addEventListener("error", listen, { capture: true });
  const error = new Error("no such widget");
  let made = 0;
  queue.add(() => {
    throw error;
  });
  queue.add(() => {
    made += 1;
  });
  await nextFrame();
  window.removeEventListener("error", listen, { capture: true });
  expect(made).toBe(1);
  expect(failed).toEqual([error]);
});

it("a frame has less time while frames are late, and slowly more again", () => {
  let frameMs = 9;
  for (let frame = 0; frame < 20; frame += 1) frameMs = nextFrameMs(frameMs, 16.7);
  expect(frameMs).toBe(9);
  frameMs = nextFrameMs(frameMs, 33);
  expect(frameMs).toBe(7);
  for (let frame = 0; frame < 10; frame += 1) frameMs = nextFrameMs(frameMs, 33);
  expect(frameMs).toBe(3);
  for (let frame = 0; frame < 20; frame += 1) frameMs = nextFrameMs(frameMs, 16.7);
  expect(frameMs).toBeCloseTo(5);
});

it("makes updates that wait in the order of their widgets, and goes round", async () => {
  // All are made before one of them is late.
  const FEW = 900;
  const queue = new FrameQueue();
  const made: number[] = [];
  const updates = Array.from({ length: FEW }, (_, at) => () => {
    work();
    made.push(at);
  });
  for (const update of updates) queue.join(update);
  // They come in another order.
  for (let at = 0; at < FEW; at += 1) queue.add(updates[(at * 7) % FEW] as () => void);
  const atOnce = made.length;
  await nextFrame();
  await nextFrame();
  const first = made.slice(atOnce);
  expect(first.length).toBeGreaterThan(0);
  expect(first).toEqual([...first].sort((one, other) => one - other));
  // One before those: it has its turn after the others.
  const [again = 0] = first;
  queue.add(updates[again] as () => void);
  await until(() => made.length === FEW + 1);
  expect(made.at(-1)).toBe(again);
  expect(new Set(made).size).toBe(FEW);
});

it("a widget that is gone loses its place, and a new one gets one", async () => {
  const queue = new FrameQueue();
  const made: string[] = [];
  const update = (name: string) => (): void => {
    work();
    made.push(name);
  };
  const [gone, joined] = [update("gone"), update("joined")];
  queue.join(gone);
  for (let at = 0; at < UPDATES; at += 1) queue.add(update("other"));
  queue.add(gone);
  queue.remove(gone);
  queue.join(joined);
  queue.add(joined);
  await until(() => made.length === UPDATES + 1);
  expect(made).not.toContain("gone");
  expect(made.filter((name) => name === "joined")).toHaveLength(1);
});

async function until(holds: () => boolean): Promise<void> {
  const began = performance.now();
  while (!holds()) {
    await nextFrame();
    expect(performance.now() - began).toBeLessThan(20_000);
  }
}
