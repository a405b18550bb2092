/** How a client connects, loses its relay, and comes back. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { ConnectionSnapshot, PvClient, PvData } from "../ts/index.js";
import { closeCode, retryDelayMs } from "../ts/link/close_code.js";
import { socketUrl } from "../ts/link/relays.js";
import {
  client,
  eachWithClient,
  fakeClient,
  FakeSocket,
  GOLDEN_NAMES,
  open,
  replaceClient,
  runPromises,
  state,
} from "./fake_relay.js";

eachWithClient();

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
    await runPromises();
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

  it("logs in where required, with a new token per connection", async () => {
    let calls = 0;
    replaceClient({ token: () => `token ${String((calls += 1))}` });
    client.pv("TEMP").subscribe(() => undefined);
    for (const [nth, token] of ["token 1", "token 2"].entries()) {
      const socket = FakeSocket.last;
      socket.readyState = 1;
      socket.frame("hello_stranger");
      await runPromises();
      expect(socket.requests.map(({ kind, names }) => [kind, ...names])).toEqual([
        ["authenticate", token],
      ]);
      expect(state()).not.toBe("open");
      socket.frame("hello");
      await runPromises();
      expect(state()).toBe("open");
      expect(socket.sent("subscribe")).toHaveLength(1);
      if (nth > 0) break;
      socket.end(4401);
      vi.advanceTimersByTime(1000);
    }
    expect(calls).toBe(2);
  });

  it("tries again when no token can be had", async () => {
    replaceClient({ token: () => Promise.reject(new Error("not logged in")) });
    client.connection.subscribe(() => undefined);
    FakeSocket.last.readyState = 1;
    FakeSocket.last.frame("hello_stranger");
    await runPromises();
    const { reason, state } = client.connection.getSnapshot();
    expect([state, reason]).toEqual(["lost", "Error: not logged in"]);
  });

  it("uses a token only for the connection that it was requested for", async () => {
    const given: { resolve: (token: string) => void; reject: (error: Error) => void }[] = [];
    replaceClient({
      token: () =>
        new Promise((resolve, reject) => {
          given.push({ resolve, reject });
        }),
    });
    client.connection.subscribe(() => undefined);
    const connected = (): FakeSocket => {
      const socket = FakeSocket.last;
      socket.readyState = 1;
      socket.frame("hello_stranger");
      return socket;
    };
    for (const late of ["resolve", "reject"] as const) {
      connected().end(1006);
      vi.advanceTimersByTime(1000);
      const socket = connected();
      const [old, own] = given.splice(0);
      if (late === "resolve") old?.resolve("old");
      else old?.reject(new Error("aborted"));
      await runPromises();
      expect(socket.requests).toEqual([]);
      own?.resolve("own");
      await runPromises();
      expect(socket.requests.map(({ names }) => names)).toEqual([["own"]]);
      socket.end(1006);
      vi.advanceTimersByTime(1000);
    }
  });

  it("keeps the values of a lost relay and subscribes again", async () => {
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
    await runPromises();
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
      replaceClient();
      const socket = await open();
      socket.onmessage?.({ data });
      expect(state()).toBe("lost");
      expect(client.connection.getSnapshot().reason).toMatch(/damaged message|text/);
    }
  });

  it("waits longer after each failure and says since when", async () => {
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
    // Half of 5 s while a user sees the page, otherwise half of 15 s.
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
    const answer = client.get(["A"]);
    expect(await answer).toMatchObject([{ ok: false, error: { code: "CLOSED" } }]);
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

describe("a listener of the connection", () => {
  /** Calls `act` when the connection is lost, waits, connects or opens. */
  const whenever = (
    is: (now: ConnectionSnapshot) => boolean,
    act: (client: PvClient) => void,
  ): void => {
    const { connection } = client;
    connection.subscribe(() => {
      if (is(connection.getSnapshot())) act(client);
    });
  };
  const isLost = ({ state }: ConnectionSnapshot): boolean => state === "lost";

  it("may ask for an attempt at once: there is one at a time", async () => {
    const socket = await open();
    whenever(isLost, (client) => {
      client.retryNow();
    });
    socket.end(1006);
    vi.advanceTimersByTime(500);
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.last.open();
    await runPromises();
    vi.advanceTimersByTime(500);
    expect(FakeSocket.all).toHaveLength(2);
    expect(state()).toBe("open");
  });

  it("may ask for an attempt at once while the list of relays is read", async () => {
    let read = 0;
    const urls = (): Promise<string[]> => {
      read += 1;
      return Promise.resolve(["ws://a/ws"]);
    };
    replaceClient({ urls });
    whenever(isLost, (client) => {
      client.retryNow();
    });
    await runPromises();
    FakeSocket.last.end(1006);
    vi.advanceTimersByTime(500);
    await runPromises();
    expect([read, FakeSocket.all.length]).toEqual([2, 2]);
  });

  it.each([
    ["connects first", (now: ConnectionSnapshot) => now.sinceMs > 0, 0],
    ["names its relay", (now: ConnectionSnapshot) => now.relayUrl !== "", 0],
    ["opens", (now: ConnectionSnapshot) => now.state === "open", 1],
    ["loses its relay", isLost, 1],
    ["connects again", (now: ConnectionSnapshot) => isLost(now) && now.retryInMs === undefined, 1],
  ] as const)("may dispose of the client when it %s", async (_, is, sockets) => {
    replaceClient();
    whenever(is, (client) => {
      client.dispose();
    });
    client.pv("TEMP").subscribe(() => undefined);
    FakeSocket.all[0]?.open();
    await runPromises();
    FakeSocket.all[0]?.end(1006);
    const silent = vi.fn();
    whenever(({ silentSinceMs }) => silentSinceMs !== undefined, silent);
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(sockets);
    expect(state()).toBe("closed");
    expect(silent).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
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

  it.each(WAKES)("pings at once when %s, and finds a dead connection in 3 s", async (_, wake) => {
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
  });

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

  it("waits at most 5 s in a visible page, 15 s in a hidden one", async () => {
    await loseForLong();
    expect(retryInMs()).toBe(2500);
    seen = "hidden";
    vi.advanceTimersByTime(2500);
    FakeSocket.last.end(1006);
    expect(retryInMs()).toBe(7500);
  });

  it("tries at once when the page becomes visible, or on request", async () => {
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
    await runPromises();
    expect(state()).toBe("open");
    const attempts = FakeSocket.all.length;
    client.retryNow();
    vi.advanceTimersByTime(5000);
    expect(FakeSocket.all, "nothing to try while it is open").toHaveLength(attempts);
  });

  it("tries within 250 ms when the network returns", async () => {
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

  it("requests few updates when hidden, and all when visible again", async () => {
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
    await runPromises();
    const { requests } = FakeSocket.last;
    expect(paces()).toEqual([1000]);
    expect(requests.findIndex(({ kind }) => kind === "pace")).toBeLessThan(
      requests.findIndex(({ kind }) => kind === "subscribe"),
    );
  });

  it("takes the interval that it is given, and 0 for none", async () => {
    for (const [hiddenIntervalMs, expected] of [
      [250, [250, 0]],
      [0, []],
    ] as const) {
      replaceClient({ hiddenIntervalMs });
      await open();
      show("hidden");
      show("visible");
      expect(paces()).toEqual(expected);
    }
  });
});

describe("close codes", () => {
  it("say whether connecting again helps", () => {
    const helps = (code: number): boolean => retryDelayMs(code, 0, 0.5, 15_000) !== undefined;
    expect([1000, 1009, 4400].map(helps)).toEqual([false, false, false]);
    expect([1001, 1006, 1011, 1012, 1013, 4403, 4408, 4410, 4429, 4999].every(helps)).toBe(true);
    expect(closeCode(4408).reason).toMatch(/took no data/);
  });

  it("spread clients over a restart and slow down hasty ones", () => {
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

  it("that is wrong closes the client and shows PVs as lost", () => {
    replaceClient({ url: "ws://[" });
    const temperature = client.pv("TEMP");
    temperature.subscribe(() => undefined);

    expect(client.connection.getSnapshot()).toMatchObject({
      state: "closed",
      reason: expect.stringContaining("ws://[ isn't a relay's address") as string,
    });
    expect(temperature.getSnapshot()?.connection.state).toBe("relayLost");
  });
});
