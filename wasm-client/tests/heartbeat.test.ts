/** Acknowledgements, pings, and what a relay that stops answering looks like. */

import { beforeAll, describe, expect, it, vi } from "vitest";

import type { Clock, Timer } from "../ts/clock.js";
import type { PvData } from "../ts/index.js";
import { Heartbeat } from "../ts/link/heartbeat.js";
import {
  client,
  eachWithClient,
  GOLDEN_NAMES,
  loadedPage,
  open,
  runPromises,
  state,
} from "./fake_relay.js";

beforeAll(loadedPage);

eachWithClient();

describe("acknowledgements and pings", () => {
  it("acknowledge at once after a pause, then at intervals", async () => {
    const socket = await open();
    const ticks = (): number[] => socket.sent("ack").map((sent) => sent.tick);
    expect(ticks()).toEqual([10]);
    vi.advanceTimersByTime(100);
    socket.frame("update");
    socket.frame("special_numbers");
    expect(ticks()).toEqual([10]);
    vi.advanceTimersByTime(149);
    expect(ticks()).toEqual([10]);
    vi.advanceTimersByTime(1);
    expect(ticks()).toEqual([10, 12]);
    vi.advanceTimersByTime(4000);
    expect(ticks()).toEqual([10, 12]);
    socket.frame("disconnected");
    expect(ticks()).toEqual([10, 12, 13]);
  });

  it("measure the way there and back", async () => {
    const socket = await open();
    expect(socket.sent("ping")).toHaveLength(1);
    vi.advanceTimersByTime(40);
    socket.frame("pong");
    vi.advanceTimersByTime(1000);
    expect(client.stats.getSnapshot().roundTripMs).toBeCloseTo(40, 0);
    vi.advanceTimersByTime(4000);
    expect(socket.sent("ping")).toHaveLength(2);
  });

  it("take silence after a ping for a lost connection", async () => {
    const socket = await open();
    socket.frame("pong");
    // Two seconds without a message, and then ten.
    vi.advanceTimersByTime(2000);
    vi.advanceTimersByTime(9999);
    expect(state()).toBe("open");
    vi.advanceTimersByTime(1);
    expect(state()).toBe("lost");
  });

  it("count frames as life while the pong waits behind them", async () => {
    const socket = await open();
    vi.advanceTimersByTime(4000);
    socket.frame("update");
    vi.advanceTimersByTime(4000);
    socket.frame("special_numbers");
    vi.advanceTimersByTime(4000);
    expect(state()).toBe("open");
  });
});

describe("a relay that hangs", () => {
  it("is shown by every PV after three seconds, until it answers", async () => {
    const local = client.pv("loc://x(1)", "{ connection { unresponsive } }");
    local.subscribe(() => undefined);
    const socket = await open();
    const pv = client.pv(GOLDEN_NAMES[0]);
    const show = (): PvData => pv.getSnapshot() as PvData;
    const listener = vi.fn();
    pv.subscribe(listener);
    socket.frame("pong");
    vi.advanceTimersByTime(2999);
    await runPromises();
    expect(socket.sent("ping")).toHaveLength(2);
    expect(client.connection.getSnapshot().silentSinceMs).toBeUndefined();
    expect(show().status.quality).toBe("VALID");
    listener.mockClear();
    vi.advanceTimersByTime(1);
    const { silentSinceMs, state } = client.connection.getSnapshot();
    expect([state, silentSinceMs]).toEqual(["open", Date.now() - 3000]);
    expect(listener).toHaveBeenCalledOnce();
    expect(show().status).toMatchObject({ quality: "UNDEFINED", message: "no news" });
    expect(show().connection).toMatchObject({
      connected: true,
      unresponsive: true,
      lastHeard: new Date(Date.now() - 3000).toISOString(),
    });
    expect(local.getSnapshot()?.connection.unresponsive).toBe(false);
    socket.frame("pong");
    expect(listener).toHaveBeenCalledTimes(2);
    expect(show().connection).toMatchObject({ unresponsive: false, lastHeard: null });
    expect(show().status.quality).toBe("VALID");
    expect(client.connection.getSnapshot().silentSinceMs).toBeUndefined();
  });

  it("is not shown by formulas whose values don't come from it", async () => {
    const [name] = GOLDEN_NAMES;
    const formulas = [
      "=1+1",
      "=`loc://x(1)` * 2",
      "=`=1+1` + 1",
      `=\`${name}\` * 2`,
      `=1 + '${name}'`,
    ];
    const listeners = formulas.map(() => vi.fn());
    const pvs = formulas.map((formula, at) => {
      const pv = client.pv(formula, "{ connection { state unresponsive } }");
      pv.subscribe(listeners[at] ?? vi.fn());
      return pv;
    });
    const socket = await open();
    await runPromises();
    vi.advanceTimersByTime(100);
    await runPromises();
    socket.frame("pong");
    const unresponsive = (): unknown[] =>
      pvs.map((pv) => {
        const { state, unresponsive } = pv.getSnapshot()?.connection ?? {};
        return state === "connected" ? unresponsive : state;
      });
    expect(unresponsive()).toEqual([false, false, false, false, false]);
    for (const each of listeners) each.mockClear();
    vi.advanceTimersByTime(3000);
    expect(client.connection.getSnapshot().silentSinceMs).toBeDefined();
    expect(unresponsive()).toEqual([false, false, false, true, true]);
    expect(listeners.map((each) => each.mock.calls.length)).toEqual([0, 0, 0, 1, 1]);
    socket.frame("pong");
    expect(unresponsive()).toEqual([false, false, false, false, false]);
  });

  it("is pinged only when nothing comes, every two seconds", async () => {
    const socket = await open();
    socket.frame("pong");
    for (let second = 0; second < 20; second += 1) {
      vi.advanceTimersByTime(1000);
      socket.frame("pong");
    }
    // Those that measure the way, each 5 s.
    expect(socket.sent("ping")).toHaveLength(1 + 4);
    for (let second = 0; second < 20; second += 2) {
      vi.advanceTimersByTime(2000);
      socket.frame("pong");
    }
    expect(socket.sent("ping")).toHaveLength(1 + 4 + 10);
  });

  it("isn't lost because the page's own timers stood still", () => {
    let now = 0;
    let look = (): void => undefined;
    const [sendPing, onSilence, onSilent] = [vi.fn(), vi.fn(), vi.fn()];
    const clock: Clock = {
      now: () => now,
      epochMs: () => now,
      setTimeout: (callback) => {
        look = callback;
        return {} as Timer;
      },
      clearTimeout: () => undefined,
    };
    const heartbeat = new Heartbeat({
      clock,
      pingIntervalMs: 5000,
      pingTimeoutMs: 10_000,
      isWatched: () => true,
      sendAck: () => undefined,
      sendPing,
      onSilent,
      onSilence,
    });
    heartbeat.received();
    heartbeat.start(250);
    expect(sendPing).toHaveBeenCalledTimes(1);
    // The machine slept for an hour.
    now = 3_600_000;
    look();
    expect(sendPing).toHaveBeenCalledTimes(2);
    expect(onSilence).not.toHaveBeenCalled();
    now += 3000;
    look();
    expect(onSilence).toHaveBeenCalledOnce();
  });
});
