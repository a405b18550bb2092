/** Several pages on one connection each receive what they would receive alone. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { PvClient, PvData } from "../ts/index.js";
import { Hub } from "../ts/worker/hub.js";
import { pace, Request, unsubscribe } from "../ts/worker/wire.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, readRequest, runPromises } from "./fake_relay.js";

let hub: Hub;
const pages: PvClient[] = [];

/** As a page sees the worker: messages come later, requests are taken at once. */
class PageSocket {
  static requests: Uint8Array<ArrayBuffer>[] = [];
  readyState = 1;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  #take = hub.join({
    postMessage: (message) => {
      queueMicrotask(() => {
        if (typeof message === "number") this.onclose?.({ code: message });
        else this.onmessage?.({ data: message });
      });
    },
  });

  send(bytes: Uint8Array<ArrayBuffer>): void {
    PageSocket.requests.push(bytes.slice());
    this.#take(bytes.slice().buffer);
  }

  close(): void {
    this.#take(undefined);
  }
}

/** A page on the hub's connection. */
async function page(): Promise<PvClient> {
  const { all } = FakeSocket;
  const client = fakeClient({ webSocket: PageSocket as unknown as typeof WebSocket });
  FakeSocket.all = all;
  await client.ready;
  pages.push(client);
  return client;
}

const listen = (client: PvClient, names: readonly string[] = GOLDEN_NAMES): (() => void)[] =>
  names.map((name) => client.pv(name).subscribe(() => undefined));

const shown = (client: PvClient, name = "TEMP"): PvData | undefined =>
  client.pv(name).getSnapshot();

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
  PageSocket.requests = [];
  const url = "ws://relay.test/ws";
  hub = new Hub(url, () => new FakeSocket(url, "pvwire.v1") as unknown as WebSocket);
});

afterEach(() => {
  for (const client of pages.splice(0)) client.dispose();
  vi.useRealTimers();
});

/** A page that sees the golden PVs. */
async function seeing(): Promise<PvClient> {
  const isFirst = pages.length === 0;
  const client = await page();
  listen(client);
  await runPromises();
  if (isFirst) FakeSocket.last.open();
  await runPromises();
  FakeSocket.last.answer("snapshot", "subscribe");
  await runPromises();
  return client;
}

describe("pages with one connection", () => {
  it("are one client of the relay and see the same", async () => {
    const first = await seeing();
    const socket = FakeSocket.last;
    const second = await seeing();
    expect(FakeSocket.all).toEqual([socket]);
    expect(second.connection.getSnapshot().state).toBe("open");
    expect(shown(second)).toEqual(shown(first));
    const before = shown(first)?.value?.float;
    socket.frame("update");
    await runPromises();
    vi.advanceTimersByTime(300);
    expect(shown(first)?.value?.float).not.toBe(before);
    expect(shown(second)).toEqual(shown(first));
    vi.advanceTimersByTime(1000);
    expect([first, second].map((client) => client.stats.getSnapshot().gapsTotal)).toEqual([0, 0]);
  });

  it("learn the outcome of each put of a message", async () => {
    const first = await seeing();
    const second = await seeing();
    const results = first.putMany([
      ["A", 1],
      ["B", 2],
      ["C", 3],
    ]);
    const other = second.put("D", 4);
    await runPromises();
    const socket = FakeSocket.last;
    for (const nth of [2, 0, 1]) socket.answer("put_written", "putMany", undefined, nth);
    socket.answer("put_done", "put");
    await runPromises();
    await expect(results).resolves.toMatchObject([{ ok: true }, { ok: true }, { ok: true }]);
    await expect(other).resolves.toMatchObject({ ok: false });
  });

  it("are told of new relays, also those that come later", async () => {
    const first = await seeing();
    FakeSocket.last.frame("relays");
    await runPromises();
    const second = await seeing();
    FakeSocket.last.end(1012);
    await runPromises();
    vi.advanceTimersByTime(4000);
    await runPromises();
    const used = [first, second].map((client) => client.connection.getSnapshot().relayUrl);
    expect(used).toEqual(["wss://two/ws", "wss://two/ws"]);
  });

  it("get updates only when a snapshot has come before them", async () => {
    await seeing();
    const socket = FakeSocket.last;
    const second = await page();
    listen(second);
    await runPromises();
    socket.frame("update");
    await runPromises();
    expect(second.connection.getSnapshot().state).toBe("open");
    expect(shown(second)?.value ?? null).toBeNull();
  });

  it("keep PVs that another page gives back, until the last", async () => {
    const first = await seeing();
    const socket = FakeSocket.last;
    const second = await seeing();
    first.dispose();
    expect(socket.sent("unsubscribe"), "the second page has all of it").toEqual([]);
    socket.frame("update");
    await runPromises();
    vi.advanceTimersByTime(300);
    expect(shown(second)?.connection.state).toBe("connected");
    expect(socket.closedWith).toBeUndefined();
    second.dispose();
    expect(socket.closedWith).toBe(1000);
  });

  it("lose it together and come back on one", async () => {
    const first = await seeing();
    const socket = FakeSocket.last;
    const second = await seeing();
    socket.end(1012);
    await runPromises();
    for (const client of [first, second]) {
      expect(client.connection.getSnapshot().state).toBe("lost");
      expect(shown(client)?.connection.state).toBe("relayLost");
    }
    FakeSocket.all = [];
    vi.advanceTimersByTime(4000);
    await runPromises();
    expect(FakeSocket.all).toHaveLength(1);
    FakeSocket.last.open();
    await runPromises();
    expect(second.connection.getSnapshot().state).toBe("open");
    expect(FakeSocket.last.sent("subscribe")).toHaveLength(2);
  });
});

describe("a page", () => {
  /** A page whose messages the test controls. */
  const quiet = (): { got: unknown[]; say: (request: Request) => void } => {
    const got: unknown[] = [];
    const take = hub.join({ postMessage: (message) => got.push(message) });
    return {
      got,
      say: ({ data }) => {
        take(data);
      },
    };
  };

  it("that takes nothing is let go, and the others go on", async () => {
    const first = await seeing();
    const socket = FakeSocket.last;
    const subscribe = PageSocket.requests.find((bytes) => readRequest(bytes).kind === "subscribe");
    const { got, say } = quiet();
    say(new Request((subscribe as Uint8Array<ArrayBuffer>).slice().buffer));
    socket.answer("snapshot", "subscribe");
    for (let nth = 0; nth < 1100; nth += 1) {
      socket.frame("update");
      await runPromises();
      // So that the first page acknowledges.
      vi.advanceTimersByTime(10);
    }
    expect(got.at(-1)).toBe(4408);
    expect(got.length).toBeLessThan(1010);
    expect(first.connection.getSnapshot().state).toBe("open");
  });

  it("that is hidden doesn't slow down one that is seen", async () => {
    await seeing();
    const socket = FakeSocket.last;
    const [one, other] = [quiet(), quiet()];
    const intervals = (): unknown[] => socket.sent("pace").map(({ filter }) => filter);
    one.say(pace(1000));
    other.say(pace(500));
    expect(intervals(), "the first page is seen").toEqual([]);
    pages[0]?.dispose();
    expect(intervals()).toEqual([[500]]);
    other.say(pace(0));
    expect(intervals()).toEqual([[500], [0]]);
  });
});

it("writes requests as the relay reads them", () => {
  expect(readRequest(new Uint8Array(unsubscribe([7, 9]).data))).toMatchObject({
    kind: "unsubscribe",
    ids: [7, 9],
  });
  expect(readRequest(new Uint8Array(pace(1000).data))).toMatchObject({
    kind: "pace",
    filter: [1000],
  });
});
