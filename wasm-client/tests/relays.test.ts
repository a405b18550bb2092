/** A client of several relays: which one it uses, and what it does when that one ends. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { ConnectionSnapshot, PvData } from "../ts/index.js";
import { Relays } from "../ts/link/relays.js";
import {
  client,
  eachWithClient,
  fakeClient,
  FakeSocket,
  open,
  replaceClient,
  runPromises,
  state,
} from "./fake_relay.js";

const URLS = ["ws://a/ws", "ws://b/ws", "ws://c/ws"];

eachWithClient();

const snapshot = (): ConnectionSnapshot => client.connection.getSnapshot();
const tried = (): string[] => FakeSocket.all.map(({ url }) => url);

/** The present attempt fails, and the next one begins. */
function fail(code = 1006): void {
  FakeSocket.last.end(code);
  vi.advanceTimersByTime(snapshot().retryInMs ?? 0);
}

describe("a client of several relays", () => {
  it("goes to another relay when its own ends, and keeps its PVs", async () => {
    replaceClient({ urls: URLS });
    const socket = await open();
    const first = socket.url;
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: first });
    fail(1012);
    const other = FakeSocket.last;
    expect(URLS).toContain(other.url);
    expect(other.url).not.toBe(first);
    expect((client.pv("TEMP").getSnapshot() as PvData).connection.state).toBe("relayLost");
    other.open();
    await runPromises();
    other.answer("snapshot", "subscribe");
    vi.advanceTimersByTime(1000);
    expect((client.pv("TEMP").getSnapshot() as PvData).connection.state).toBe("connected");
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: other.url });
  });

  it("tries each of them before one twice, and then waits longer", () => {
    replaceClient({ urls: URLS });
    client.connection.subscribe(() => undefined);
    const delays: number[] = [];
    for (let attempt = 0; attempt < 9; attempt += 1) {
      FakeSocket.last.end(1006);
      delays.push(snapshot().retryInMs ?? 0);
      vi.advanceTimersByTime(delays.at(-1) as number);
    }
    for (const from of [0, 3, 6]) {
      expect(
        tried()
          .slice(from, from + 3)
          .sort(),
      ).toEqual(URLS);
    }
    expect(tried().some((url, at, all) => url === all[at - 1])).toBe(false);
    expect(delays).toEqual([125, 125, 125, 250, 250, 250, 500, 500, 500]);
  });

  it("begins with any of them, so that clients spread evenly", () => {
    const first = new Map<string, number>();
    let seed = 1;
    const random = (): number => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
    for (let nth = 0; nth < 300; nth += 1) {
      const one = fakeClient({ urls: URLS }, { random });
      one.connection.subscribe(() => undefined);
      const { url } = FakeSocket.last;
      first.set(url, (first.get(url) ?? 0) + 1);
      one.dispose();
    }
    expect([...first.keys()].sort()).toEqual(URLS);
    expect(Math.min(...first.values())).toBeGreaterThan(60);
  });

  it("ends with a message when the addresses are invalid or missing", () => {
    for (const [urls, reason] of [
      [[], "the list of relays is empty"],
      [["ws://a/ws", "ws://["], /^ws:\/\/\[ isn't a relay's address/],
    ] as const) {
      replaceClient({ urls });
      client.connection.subscribe(() => undefined);
      expect(state()).toBe("closed");
      expect(snapshot().reason).toMatch(reason);
    }
  });
});

describe("a client of a relay that names others", () => {
  const [ONE, TWO] = ["wss://one/ws", "wss://two/ws"];

  it("goes once to another one when its own is crowded, and keeps the list", async () => {
    replaceClient({ urls: [ONE] });
    client.pv("TEMP").subscribe(() => undefined);
    expect(tried()).toEqual([ONE]);
    FakeSocket.last.open("hello_fleet");
    expect(FakeSocket.all[0]?.closedWith).toBe(1000);
    expect(tried()).toEqual([ONE, TWO]);
    expect(state()).toBe("connecting");
    // This one says that it is crowded, too.
    FakeSocket.last.open("hello_fleet");
    await runPromises();
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: TWO });
    expect(FakeSocket.last.sent("subscribe")).toHaveLength(1);
    for (let attempt = 0; attempt < 4; attempt += 1) fail();
    expect(tried()).toEqual([ONE, TWO, ONE, TWO, ONE, TWO]);
  });

  it("stays, and comes back, when the others can't be reached", async () => {
    replaceClient({ urls: [ONE] });
    client.pv("TEMP").subscribe(() => undefined);
    FakeSocket.last.open("hello_fleet");
    fail();
    expect(FakeSocket.last.url).toBe(ONE);
    FakeSocket.last.open("hello_fleet");
    await runPromises();
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: ONE });
  });

  it("goes to those that its relay has named since", async () => {
    replaceClient({ urls: [ONE] });
    await open();
    FakeSocket.last.frame("relays");
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: ONE });
    for (let attempt = 0; attempt < 2; attempt += 1) fail();
    expect(tried().sort()).toEqual([ONE, "wss://three/ws", TWO]);
  });

  it("gives its token to no host that a relay alone has named", async () => {
    const token = (): string => "secret";
    replaceClient({ urls: [ONE], token });
    client.pv("TEMP").subscribe(() => undefined);
    // It names another host, and says that it is crowded.
    FakeSocket.last.open("hello_fleet");
    await runPromises();
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: ONE });
    FakeSocket.last.frame("relays");
    for (let attempt = 0; attempt < 4; attempt += 1) fail();
    expect(new Set(tried())).toEqual(new Set([ONE]));

    replaceClient({ urls: [ONE], token, tokenHosts: ["two"] });
    client.pv("TEMP").subscribe(() => undefined);
    FakeSocket.last.open("hello_fleet");
    expect(FakeSocket.last.url).toBe(TWO);
  });

  it("knows the hosts that may have its token by their whole name", async () => {
    const learned = async (url: string, tokenHosts: string[], named: string): Promise<boolean> => {
      const relays = new Relays({ url, tokenHosts, token: () => "secret" }, () => 0.5);
      await relays.next();
      relays.learn([named]);
      return relays.count === 2;
    };
    const of = (tokenHosts: string[], named: string): Promise<boolean> =>
      learned("wss://screens.example.org/ws", tokenHosts, named);
    for (const named of [
      "wss://screens.example.org:8443/ws",
      "wss://SCREENS.example.org/two/ws",
      "wss://a.relays.example.org/ws",
      "wss://a.b.relays.example.org/ws",
      "wss://other.example/ws",
    ]) {
      expect(await of(["*.relays.example.org", "other.example"], named), named).toBe(true);
    }
    for (const named of [
      "wss://evil.example/ws",
      "wss://screens.example.org.evil.example/ws",
      "wss://screens.example.org@evil.example/ws",
      "wss://evil.example/?screens.example.org",
      "wss://evilrelays.example.org/ws",
      "wss://relays.example.org/ws",
      "wss://not.other.example/ws",
      "wss://[/ws",
    ]) {
      expect(await of(["*.relays.example.org", "other.example"], named), named).toBe(false);
    }
  });

  it("does nothing of it with `discover: false`", () => {
    replaceClient({ urls: [ONE], discover: false });
    client.pv("TEMP").subscribe(() => undefined);
    FakeSocket.last.open("hello_fleet");
    FakeSocket.last.frame("relays");
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: ONE });
    fail();
    expect(tried()).toEqual([ONE, ONE]);
  });

  it("tries the next one when the browser refuses an address that a relay has named", () => {
    const Refusing = function (url: string, protocols: string): object {
      if (url === TWO) throw new Error("refused by the page's policy");
      return new FakeSocket(url, protocols);
    };
    replaceClient({ urls: [ONE], webSocket: Refusing as unknown as typeof WebSocket });
    client.pv("TEMP").subscribe(() => undefined);
    FakeSocket.last.open("hello_fleet");
    expect(snapshot()).toMatchObject({ state: "lost", reason: "refused by the page's policy" });
    vi.advanceTimersByTime(snapshot().retryInMs ?? 0);
    expect(tried()).toEqual([ONE, ONE]);
  });

  it("uses WebSocket addresses alone, no unencrypted one after an encrypted one, and at most 64", async () => {
    const relays = new Relays({ url: ONE }, () => 0.5);
    const round = async (): Promise<string[]> => {
      const urls: string[] = [];
      for (let nth = 0; nth < relays.count; nth += 1) urls.push(await relays.next());
      return urls.sort();
    };
    expect(await relays.next()).toBe(ONE);
    const bad = [
      "",
      "two",
      "/ws",
      "https://two/ws",
      "javascript:alert(1)",
      "wss://",
      "ws://two/ws",
    ];
    relays.learn(bad);
    relays.learn([]);
    expect(relays.count).toBe(1);
    relays.learn([...bad, TWO, TWO, ONE]);
    expect(await round()).toEqual([ONE, TWO]);
    relays.learn(Array.from({ length: 10_000 }, (_, nth) => `wss://r${String(nth)}/ws`));
    expect(relays.count).toBe(65);
  });
});

describe("a list of relays that a server keeps", () => {
  let lists: (() => Promise<string[]>)[];
  let read = 0;

  beforeEach(() => {
    read = 0;
    lists = [];
    const urls = (): Promise<string[]> => {
      const list = lists[Math.min(read, lists.length - 1)] as () => Promise<string[]>;
      read += 1;
      return list();
    };
    replaceClient({ urls });
  });
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it("is read first, and again when all its relays have been tried", async () => {
    lists = [
      () => Promise.resolve(["ws://a/ws", "ws://b/ws"]),
      () => Promise.resolve(["ws://c/ws"]),
    ];
    client.connection.subscribe(() => undefined);
    expect(FakeSocket.all).toHaveLength(0);
    await runPromises();
    fail();
    expect(tried().sort()).toEqual(["ws://a/ws", "ws://b/ws"]);
    expect(read).toBe(1);
    fail();
    await runPromises();
    expect(read).toBe(2);
    expect(FakeSocket.last.url).toBe("ws://c/ws");
  });

  it("is read again after a pause when it can't be had, and the reason is said", async () => {
    lists = [
      () => Promise.reject(new Error("503")),
      () => new Promise(() => undefined),
      () => Promise.resolve([]),
      () => Promise.resolve(["ws://a/ws"]),
    ];
    client.connection.subscribe(() => undefined);
    await runPromises();
    expect(snapshot()).toMatchObject({ state: "lost", reason: "no list of relays: 503" });
    vi.advanceTimersByTime(snapshot().retryInMs ?? 0);
    vi.advanceTimersByTime(10_000);
    expect(snapshot().reason).toBe("the list of relays doesn't arrive");
    vi.advanceTimersByTime(snapshot().retryInMs ?? 0);
    await runPromises();
    expect(snapshot().reason).toBe("no list of relays: the list of relays is empty");
    vi.advanceTimersByTime(snapshot().retryInMs ?? 0);
    await runPromises();
    FakeSocket.last.open();
    await runPromises();
    expect(snapshot()).toMatchObject({ state: "open", relayUrl: "ws://a/ws", reason: undefined });
  });

  it("that comes after the client has ended opens no connection", async () => {
    lists = [() => Promise.resolve(["ws://a/ws"])];
    client.connection.subscribe(() => undefined);
    client.dispose();
    await runPromises();
    expect(FakeSocket.all).toHaveLength(0);
    expect(state()).toBe("closed");
  });
});
