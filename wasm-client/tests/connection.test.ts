/** Does the connection come back, and does the page say what is so meanwhile? */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { Clock, Timer } from "../ts/clock.js";
import { closeCode, retryDelayMs } from "../ts/link/close_code.js";
import { Heartbeat } from "../ts/link/heartbeat.js";
import { socketUrl } from "../ts/link/socket.js";
import type { PvClient, PvData, PvOptions } from "../ts/index.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, settle } from "./fake_relay.js";

let client: PvClient;

beforeEach(async () => {
  vi.useFakeTimers();
  client = fakeClient();
  await client.ready;
});

afterEach(() => {
  client.dispose();
  vi.useRealTimers();
});

async function open(): Promise<FakeSocket> {
  for (const name of GOLDEN_NAMES) client.pv(name).subscribe(() => undefined);
  FakeSocket.last.open();
  await settle();
  FakeSocket.last.answer("snapshot", "subscribe");
  return FakeSocket.last;
}

const state = (): string => client.connection.getSnapshot().state;

describe("a client", () => {
  it("does nothing before it is used", () => {
    client.pv("X").getSnapshot();
    expect(FakeSocket.all).toHaveLength(0);
    expect(state()).toBe("connecting");
  });

  it("is open when the relay has said hello", async () => {
    client.connection.subscribe(() => undefined);
    expect(FakeSocket.last.url).toBe("ws://relay.test/ws");
    expect(state()).toBe("connecting");
    FakeSocket.last.open();
    await settle();
    expect(client.connection.getSnapshot()).toMatchObject({
      state: "open",
      relayVersion: "0.1.0",
      relayInstance: "0123456789abcdef",
    });
  });

  it("offers to take numbers packed when it is told to", () => {
    const slow = fakeClient({ compression: "lz4" });
    slow.connection.subscribe(() => undefined);
    expect(FakeSocket.last.protocol).toEqual(["pvwire.v1.lz4", "pvwire.v1"]);
    slow.dispose();
  });

  it("shows who it is where the relay wants it, with a new token for each connection", async () => {
    client.dispose();
    let asked = 0;
    client = fakeClient({ token: () => `token ${String((asked += 1))}` });
    client.pv("TEMP").subscribe(() => undefined);
    for (const [nth, token] of ["token 1", "token 2"].entries()) {
      const socket = FakeSocket.last;
      socket.readyState = 1;
      socket.frame("hello_stranger");
      await settle();
      expect(socket.requests.map(({ kind, names }) => [kind, ...names])).toEqual([
        ["authenticate", token],
      ]);
      expect(state()).not.toBe("open");
      socket.frame("hello");
      await settle();
      expect(state()).toBe("open");
      expect(socket.sent("subscribe")).toHaveLength(1);
      if (nth > 0) break;
      socket.end(4401);
      vi.advanceTimersByTime(1000);
    }
    expect(asked).toBe(2);
  });

  it("tries again when no token can be had", async () => {
    client.dispose();
    client = fakeClient({ token: () => Promise.reject(new Error("not logged in")) });
    client.connection.subscribe(() => undefined);
    FakeSocket.last.readyState = 1;
    FakeSocket.last.frame("hello_stranger");
    await settle();
    const { reason, state } = client.connection.getSnapshot();
    expect([state, reason]).toEqual(["lost", "Error: not logged in"]);
  });

  it("says that the relay is lost, keeps the values, comes back and asks for everything", async () => {
    const socket = await open();
    socket.end(1006);
    expect(client.connection.getSnapshot()).toMatchObject({
      state: "lost",
      attempt: 1,
      retryInMs: 125,
      reason: "the connection was cut",
    });
    vi.advanceTimersByTime(17);
    const lost = client.pv("TEMP").getSnapshot() as PvData;
    expect(lost.connection).toMatchObject({ state: "relayLost", connected: false });
    expect(lost.status).toMatchObject({ quality: "UNDEFINED", mutable: false });
    expect(lost.value?.float).toBe(21.5);

    vi.advanceTimersByTime(200);
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.last.open();
    await settle();
    expect(FakeSocket.last.sent("subscribe").map((sent) => sent.names)).toEqual([
      [...GOLDEN_NAMES],
    ]);
    expect(state()).toBe("open");
    FakeSocket.last.answer("snapshot", "subscribe");
    vi.advanceTimersByTime(1000);
    expect((client.pv("TEMP").getSnapshot() as PvData).connection.state).toBe("connected");
    expect(client.stats.getSnapshot()).toMatchObject({ reconnectsTotal: 1, subscriptions: 5 });
  });

  it("drops a connection in which a frame is missing", async () => {
    const socket = await open();
    socket.frame("special_numbers");
    expect(socket.closedWith).toBe(1000);
    expect(client.connection.getSnapshot()).toMatchObject({
      state: "lost",
      reason: "a frame is missing",
    });
    vi.advanceTimersByTime(1000);
    expect(client.stats.getSnapshot().gapsTotal).toBe(1);
  });

  it("drops a connection that brings damaged bytes or text", async () => {
    for (const data of [new ArrayBuffer(64), "hello"]) {
      client.dispose();
      client = fakeClient();
      const socket = await open();
      socket.onmessage?.({ data });
      expect(state()).toBe("lost");
      expect(client.connection.getSnapshot().reason).toMatch(/damaged message|text/);
    }
  });

  it("waits longer after each failure, and tells since when it is lost", async () => {
    const socket = await open();
    const delays: (number | undefined)[] = [];
    socket.end(1006);
    const { sinceMs } = client.connection.getSnapshot();
    for (let attempt = 0; attempt < 9; attempt += 1) {
      const { retryInMs = 0 } = client.connection.getSnapshot();
      delays.push(retryInMs);
      vi.advanceTimersByTime(retryInMs);
      FakeSocket.last.end(1006);
    }
    // Half of 5 s while somebody looks at a page, of 15 s elsewhere.
    const most = typeof document === "object" ? 2500 : 7500;
    const expected = [125, 250, 500, 1000, 2000, 4000, 7500, 7500, 7500];
    expect(delays).toEqual(expected.map((delay) => Math.min(delay, most)));
    expect(client.connection.getSnapshot()).toMatchObject({ sinceMs, attempt: 10 });
    vi.advanceTimersByTime(most);
    expect(client.connection.getSnapshot().retryInMs, "under way").toBeUndefined();
    FakeSocket.last.open();
    vi.advanceTimersByTime(5000);
    FakeSocket.last.end(1006);
    expect(client.connection.getSnapshot().retryInMs).toBe(125);
  });

  it("gives up where connecting again can't help", async () => {
    const socket = await open();
    socket.end(4400);
    expect(state()).toBe("closed");
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    const asked = client.get(["A"]);
    expect(await asked).toMatchObject([{ ok: false, error: { code: "CLOSED" } }]);
    expect((client.pv("TEMP").getSnapshot() as PvData).connection.state).toBe("relayLost");
  });

  it("ends for good when disposed", async () => {
    const socket = await open();
    client.dispose();
    expect(socket.closedWith).toBe(1000);
    expect(state()).toBe("closed");
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(1);
  });

  it("takes a relay that doesn't say hello for unreachable", () => {
    client.connection.subscribe(() => undefined);
    vi.advanceTimersByTime(10_000);
    expect(client.connection.getSnapshot()).toMatchObject({
      state: "lost",
      reason: "the relay doesn't answer",
    });
  });
});

describe("acknowledgements and pings", () => {
  it("acknowledge at once after a pause, and later what comes soon after", async () => {
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

  it("take frames for life, when the answer to a ping waits behind them", async () => {
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
  it("is told by every PV after three seconds without a message, and that it answers again", async () => {
    const local = client.pv("loc://x(1)", "{ connection { unresponsive } }");
    local.subscribe(() => undefined);
    const socket = await open();
    const pv = client.pv(GOLDEN_NAMES[0]);
    const show = (): PvData => pv.getSnapshot() as PvData;
    const told = vi.fn();
    pv.subscribe(told);
    socket.frame("pong");
    vi.advanceTimersByTime(2999);
    await settle();
    expect(socket.sent("ping")).toHaveLength(2);
    expect(client.connection.getSnapshot().silentSinceMs).toBeUndefined();
    expect(show().status.quality).toBe("VALID");
    told.mockClear();
    vi.advanceTimersByTime(1);
    const { silentSinceMs, state } = client.connection.getSnapshot();
    expect([state, silentSinceMs]).toEqual(["open", Date.now() - 3000]);
    expect(told).toHaveBeenCalledOnce();
    expect(show().status).toMatchObject({ quality: "UNDEFINED", message: "no news" });
    expect(show().connection).toMatchObject({
      connected: true,
      unresponsive: true,
      lastHeard: new Date(Date.now() - 3000).toISOString(),
    });
    expect(local.getSnapshot()?.connection.unresponsive).toBe(false);
    socket.frame("pong");
    expect(told).toHaveBeenCalledTimes(2);
    expect(show().connection).toMatchObject({ unresponsive: false, lastHeard: null });
    expect(show().status.quality).toBe("VALID");
    expect(client.connection.getSnapshot().silentSinceMs).toBeUndefined();
  });

  it("costs no pings while values come, and one in two seconds while none do", async () => {
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
    heartbeat.heard();
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

describe("a client whose relay is lost", () => {
  const page: EventTarget = typeof document === "object" ? document : new EventTarget();
  const view: EventTarget = typeof window === "object" ? window : new EventTarget();
  let seen = "visible";

  beforeEach(() => {
    seen = "visible";
    Object.defineProperty(page, "visibilityState", { get: () => seen, configurable: true });
    if (typeof document === "object") return;
    Object.defineProperty(page, "defaultView", { value: view });
    vi.stubGlobal("document", page);
  });
  afterEach(() => {
    Reflect.deleteProperty(page, "visibilityState");
    vi.unstubAllGlobals();
  });

  const WAKES: readonly (readonly [string, () => unknown])[] = [
    ["the page is seen again", () => page.dispatchEvent(new Event("visibilitychange"))],
    ["the page is shown again", () => view.dispatchEvent(new Event("pageshow"))],
    ["the network returns", () => view.dispatchEvent(new Event("online"))],
  ];

  it.each(WAKES)(
    "asks an open connection at once when %s, and finds it dead in 3 s",
    async (_, wake) => {
      const socket = await open();
      socket.frame("pong");
      vi.advanceTimersByTime(500);
      wake();
      wake();
      expect(socket.sent("ping")).toHaveLength(2);
      vi.advanceTimersByTime(2999);
      expect(state()).toBe("open");
      vi.advanceTimersByTime(1);
      expect(state()).toBe("lost");
    },
  );

  it("asks a quiet relay less often while the page is hidden", async () => {
    seen = "hidden";
    const socket = await open();
    socket.frame("pong");
    vi.advanceTimersByTime(4000);
    expect(socket.sent("ping")).toHaveLength(1);
    vi.advanceTimersByTime(1000);
    expect(socket.sent("ping")).toHaveLength(2);
  });

  /** Loses the relay for long: the next attempt is far off. */
  const loseForLong = async (): Promise<void> => {
    (await open()).end(1006);
    for (let attempt = 0; attempt < 9; attempt += 1) {
      vi.advanceTimersByTime(client.connection.getSnapshot().retryInMs ?? 0);
      FakeSocket.last.end(1006);
    }
  };
  const retryInMs = (): number | undefined => client.connection.getSnapshot().retryInMs;

  it("waits at most 5 s while the page is seen, and 15 s while it is hidden", async () => {
    await loseForLong();
    expect(retryInMs()).toBe(2500);
    seen = "hidden";
    vi.advanceTimersByTime(2500);
    FakeSocket.last.end(1006);
    expect(retryInMs()).toBe(7500);
  });

  it("tries at once when the page is seen again, and when it is asked to", async () => {
    seen = "hidden";
    await loseForLong();
    for (const ask of [
      () => {
        seen = "visible";
        page.dispatchEvent(new Event("visibilitychange"));
      },
      () => {
        client.retryNow();
      },
    ]) {
      const attempts = FakeSocket.all.length;
      ask();
      vi.advanceTimersByTime(0);
      expect(FakeSocket.all).toHaveLength(attempts + 1);
      ask();
      vi.advanceTimersByTime(500);
      expect(FakeSocket.all, "one attempt at a time").toHaveLength(attempts + 1);
      FakeSocket.last.end(1006);
      expect(retryInMs(), "and if it fails waits as before").toBe(2500);
    }
    client.retryNow();
    vi.advanceTimersByTime(0);
    FakeSocket.last.open();
    await settle();
    expect(state()).toBe("open");
    const attempts = FakeSocket.all.length;
    client.retryNow();
    vi.advanceTimersByTime(5000);
    expect(FakeSocket.all, "nothing to try while it is open").toHaveLength(attempts);
  });

  it("tries within 250 ms when the network returns, also anew when an attempt hangs", async () => {
    await loseForLong();
    const attempts = FakeSocket.all.length;
    view.dispatchEvent(new Event("online"));
    vi.advanceTimersByTime(124);
    expect(FakeSocket.all, "not all pages of a network at once").toHaveLength(attempts);
    vi.advanceTimersByTime(1);
    expect(FakeSocket.all).toHaveLength(attempts + 1);
    vi.advanceTimersByTime(1000);
    view.dispatchEvent(new Event("online"));
    vi.advanceTimersByTime(125);
    expect(FakeSocket.all, "the attempt began without a network").toHaveLength(attempts + 2);
    client.dispose();
    view.dispatchEvent(new Event("online"));
    page.dispatchEvent(new Event("visibilitychange"));
    vi.advanceTimersByTime(20_000);
    expect(FakeSocket.all).toHaveLength(attempts + 2);
  });
});

describe("a hidden page", () => {
  const page: EventTarget = typeof document === "object" ? document : new EventTarget();
  let seen = "visible";
  const show = (now: string): void => {
    seen = now;
    page.dispatchEvent(new Event("visibilitychange"));
  };
  const paces = (): number[] =>
    FakeSocket.last.sent("pace").map(({ filter: [interval] }) => interval as number);

  beforeEach(() => {
    seen = "visible";
    Object.defineProperty(page, "visibilityState", { get: () => seen, configurable: true });
    if (typeof document !== "object") vi.stubGlobal("document", page);
  });
  afterEach(() => {
    Reflect.deleteProperty(page, "visibilityState");
    vi.unstubAllGlobals();
  });

  it("asks for a trickle, and for every update again when it is seen", async () => {
    await open();
    expect(paces()).toEqual([]);
    show("hidden");
    show("visible");
    expect(paces()).toEqual([1000, 0]);
    client.dispose();
    show("hidden");
    expect(paces()).toEqual([1000, 0]);
  });

  it("asks again on the next connection", async () => {
    const socket = await open();
    show("hidden");
    socket.end(1006);
    show("visible");
    show("hidden");
    vi.advanceTimersByTime(4000);
    FakeSocket.last.open();
    await settle();
    const { requests } = FakeSocket.last;
    expect(paces()).toEqual([1000]);
    expect(requests.findIndex(({ kind }) => kind === "pace")).toBeLessThan(
      requests.findIndex(({ kind }) => kind === "subscribe"),
    );
  });

  it("takes the interval that it is given, and 0 for none", async () => {
    for (const [hiddenIntervalMs, asked] of [
      [250, [250, 0]],
      [0, []],
    ] as const) {
      client.dispose();
      client = fakeClient({ hiddenIntervalMs });
      await open();
      show("hidden");
      show("visible");
      expect(paces()).toEqual(asked);
    }
  });
});

describe("subscriptions", () => {
  it("end a while after the last listener left, and not when one comes back", async () => {
    const socket = await open();
    const end = client.pv("TEMP", "{ id }").subscribe(() => undefined);
    end();
    end();
    vi.advanceTimersByTime(3000);
    expect(socket.sent("unsubscribe"), "others still listen").toHaveLength(0);

    client.dispose();
    client = fakeClient();
    const ends = GOLDEN_NAMES.map((name) => client.pv(name).subscribe(() => undefined));
    FakeSocket.last.open();
    await settle();
    FakeSocket.last.answer("snapshot", "subscribe");
    for (const end of ends.slice(0, 2)) end();
    vi.advanceTimersByTime(1000);
    client.pv("TEMP").subscribe(() => undefined);
    vi.advanceTimersByTime(1000);
    expect(FakeSocket.last.sent("unsubscribe").map((sent) => sent.ids)).toEqual([[4]]);
    expect(client.inspect("MODE")).toBeUndefined();
    expect(FakeSocket.last.sent("subscribe")).toHaveLength(1);
  });

  it("with other options are others, asked for one filter at a time", async () => {
    const listen = (name: string, options?: PvOptions): void => {
      client.pv(name, undefined, options).subscribe(() => undefined);
    };
    listen("TEMP");
    listen("TEMP", { rateHz: 3 });
    listen("MODE", { deadband: 0.5, every: 10, stride: 2, maxLength: 9, points: 4, float32: true });
    listen("MODE", { rateHz: 3, deadband: undefined });
    listen("loc://x(1)", { rateHz: 3 });
    const socket = FakeSocket.last;
    socket.open();
    await settle();
    for (let answered = 1; answered <= 3; answered += 1) {
      expect(socket.sent("subscribe"), "one at a time").toHaveLength(answered);
      socket.answer("snapshot", "subscribe", [answered, answered + 10, 30, 31, 32]);
    }
    const asked = socket.sent("subscribe").map(({ names, filter }) => [names, filter]);
    expect(asked).toEqual([
      [["TEMP"], []],
      [
        ["TEMP", "MODE"],
        [334, 0, 1],
      ],
      [["MODE"], [0, 0.5, 10, 2, 9, 4, 1]],
    ]);
    expect(client.pv("TEMP", undefined, { rateHz: 3 })).toBe(
      client.pv("TEMP", undefined, { rateHz: 3, every: 1 }),
    );
    expect(
      client.inspect("MODE", {
        every: 10,
        deadband: 0.5,
        stride: 2,
        maxLength: 9,
        points: 4,
        float32: true,
      }),
    ).toBeDefined();
    expect(client.inspect("MODE")).toBeUndefined();
  });

  it("are not ended while others are being made", async () => {
    const ends = GOLDEN_NAMES.map((name) => client.pv(name).subscribe(() => undefined));
    FakeSocket.last.open();
    await settle();
    ends[0]?.();
    client.pv("ca://TEMP").subscribe(() => undefined);
    await settle();
    vi.advanceTimersByTime(3000);
    expect(FakeSocket.last.sent("unsubscribe")).toHaveLength(0);
    expect(FakeSocket.last.sent("subscribe"), "one at a time").toHaveLength(1);
    FakeSocket.last.answer("snapshot", "subscribe");
    expect(FakeSocket.last.sent("subscribe").map((sent) => sent.names)[1]).toEqual(["ca://TEMP"]);
    expect(FakeSocket.last.sent("unsubscribe"), "the next one is open").toHaveLength(0);
    FakeSocket.last.answer("error", "subscribe");
    expect(FakeSocket.last.sent("unsubscribe").map((sent) => sent.ids)).toEqual([[3]]);
    const refused = client.pv("ca://TEMP").getSnapshot() as PvData;
    expect(refused.connection.reason).toBe("this relay doesn't know the request");
  });
});

describe("close codes", () => {
  it("say whether connecting again helps", () => {
    const helps = (code: number): boolean => retryDelayMs(code, 0, 0.5, 15_000) !== undefined;
    expect([1000, 1009, 4400].map(helps)).toEqual([false, false, false]);
    expect([1001, 1006, 1011, 1012, 1013, 4403, 4408, 4429, 4999].every(helps)).toBe(true);
    expect(closeCode(4408).reason).toMatch(/took no data/);
  });

  it("spread clients over a restart and slow down those that asked too fast", () => {
    // The relay itself spreads those that it closes.
    expect(retryDelayMs(1012, 0, 1, 15_000)).toBe(250);
    expect(retryDelayMs(1012, 1, 1, 15_000)).toBe(500);
    expect(retryDelayMs(4429, 0, 0, 15_000)).toBe(7500);
    expect(retryDelayMs(1006, 99, 1, 15_000)).toBe(15_000);
  });
});

describe("the relay's address", () => {
  it("may be a WebSocket's, a page's or a path", () => {
    expect(socketUrl("ws://host:8080", undefined)).toBe("ws://host:8080/ws");
    expect(socketUrl("https://host/relay/ws#x", undefined)).toBe("wss://host/relay/ws");
    expect(socketUrl("/ws", "http://page:5173/app/")).toBe("ws://page:5173/ws");
  });
});
