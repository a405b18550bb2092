/** WebAssembly is called once for each frame, and views of its memory don't get out. */

import { afterEach, describe, expect, it, vi } from "vitest";

import { Core, initSync } from "../pkg/pvwire_wasm.js";
import type { PvData } from "../ts/index.js";
import { client, eachWithClient, FakeSocket, GOLDEN_NAMES, runPromises } from "./fake_relay.js";

eachWithClient();

afterEach(() => {
  vi.restoreAllMocks();
});

async function atTheSnapshot(ids?: readonly number[]): Promise<FakeSocket> {
  for (const name of GOLDEN_NAMES) client.pv(name).subscribe(() => undefined);
  const socket = FakeSocket.last;
  socket.open();
  await runPromises();
  socket.answer("snapshot", "subscribe", ids);
  vi.advanceTimersByTime(300);
  return socket;
}

/** Counts the calls into the module while `work` runs, by function. */
function callsDuring(work: () => void): Record<string, number> {
  const names = Object.getOwnPropertyNames(Core.prototype).filter(
    (name) => name !== "constructor" && typeof Core.prototype[name as "apply"] === "function",
  );
  const spies = names.map((name) => vi.spyOn(Core.prototype, name as "apply"));
  work();
  const counts = Object.fromEntries(names.map((name, at) => [name, spies[at]?.mock.calls.length]));
  vi.restoreAllMocks();
  return counts as Record<string, number>;
}

describe("the border to WebAssembly", () => {
  it("is crossed equally often for frames of many and of few rows", async () => {
    const socket = await atTheSnapshot();
    const few = callsDuring(() => {
      socket.frame("update");
    });
    const many = callsDuring(() => {
      socket.frame("special_numbers");
    });
    expect(few.apply).toBe(1);
    // An acknowledgement is sent twice a second, whatever a frame holds.
    expect({ ...many, ack: 0 }).toEqual({ ...few, ack: 0 });
  });

  it("is crossed equally often for many and for few listeners", async () => {
    const socket = await atTheSnapshot();
    const flush = (): Record<string, number> => {
      socket.frame("update");
      return callsDuring(() => {
        vi.advanceTimersByTime(300);
      });
    };
    const few = flush();
    const listener = vi.fn();
    for (let nth = 0; nth < 50; nth += 1) {
      client.pv("TEMP").subscribe(() => {
        listener();
      });
    }
    socket.frame("catch_up");
    const many = callsDuring(() => {
      vi.advanceTimersByTime(300);
    });
    expect(listener).toHaveBeenCalledTimes(50);
    expect(many).toEqual(few);
  });
});

describe("the module's memory", () => {
  it("is in no object of applications: arrays outlive its growth", async () => {
    // The module that is loaded already.
    const { memory } = initSync(new Uint8Array());
    const socket = await atTheSnapshot([20, 21, 22, 23, 24]);
    for (const name of [
      "update",
      "special_numbers",
      "disconnected",
      "metadata_change",
      "arrays",
    ] as const) {
      socket.frame(name);
    }
    vi.advanceTimersByTime(300);
    const shown = GOLDEN_NAMES.map((name) => client.pv(name).getSnapshot() as PvData);
    const views = shown.flatMap(viewsIn);
    expect(views.length).toBeGreaterThan(2);
    for (const view of views) expect(view.buffer).not.toBe(memory.buffer);

    const before = memory.buffer;
    for (let nth = 0; memory.buffer === before; nth += 1) {
      expect(nth, "the memory grows with the PVs").toBeLessThan(100_000);
      client.pv(`GROW${String(nth)}`).subscribe(() => undefined);
    }
    expect(shown[0]?.value?.array).toEqual(Float64Array.of(1.5, -2.5, NaN));
    expect(client.pv("TEMP").getSnapshot(), "nothing of it changed").toBe(shown[0]);
  });
});

/** Every typed array in a snapshot. */
function viewsIn(value: unknown): ArrayBufferView[] {
  if (ArrayBuffer.isView(value)) return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(viewsIn);
}
