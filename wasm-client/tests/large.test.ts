/** Large values of the stream are applied in the WebSocket's order; without a stream they come by WebSocket. */

import { afterEach, describe, expect, it, vi } from "vitest";

import { largeStream } from "../ts/link/large.js";
import { readRecords, type LargeRecord } from "../ts/link/records.js";
import { createFakeClock } from "../ts/testing/clock.js";
import { runPromises } from "./fake_relay.js";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** A record's bytes: lengths, then as many bytes of one value. */
function record(length: number, head: number, value = 7): Uint8Array {
  const bytes = new Uint8Array(8 + length).fill(value);
  new DataView(bytes.buffer).setUint32(0, length, true);
  new DataView(bytes.buffer).setUint32(4, head, true);
  return bytes;
}

const joined = (...parts: Uint8Array[]): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(parts.flatMap((part) => [...part]));

/** A body that gives its bytes in these pieces, and then what the test says. */
class Body {
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  readonly stream = new ReadableStream<Uint8Array>({
    start: (controller) => {
      this.#controller = controller;
    },
  });

  give(bytes: Uint8Array): void {
    this.#controller?.enqueue(bytes);
  }

  end(): void {
    this.#controller?.close();
  }
}

function serve(body: Body | undefined, status = 200): string[] {
  const fetched: string[] = [];
  vi.stubGlobal("fetch", (url: string) => {
    fetched.push(url);
    if (body === undefined) return Promise.reject(new TypeError("refused"));
    return Promise.resolve({ ok: status === 200, status, body: body.stream });
  });
  return fetched;
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn += 1) await runPromises();
};

/** A stream with a WebSocket that the test is. */
function fake(socket = { sent: 0, failed: [] as string[] }, clock = createFakeClock()) {
  // In the page, whose fetch the test is, not in a worker.
  vi.stubGlobal("Worker", undefined);
  const applied: [number, number][] = [];
  const stream = largeStream(
    Object.assign(socket, {
      url: "wss://relay.test/site/ws",
      send: () => {
        socket.sent += 1;
      },
      fail: (reason: string) => {
        socket.failed.push(reason);
      },
    }),
    (data, head) => {
      applied.push([data.byteLength, head]);
    },
    clock,
  );
  return { stream, socket, applied, clock };
}

const message = (bytes: number): ArrayBuffer => new ArrayBuffer(bytes);
const ANNOUNCEMENT = message(0);

describe("the body", () => {
  it("becomes the same records however it is cut", async () => {
    const bytes = joined(record(0, 0), record(5, 3, 1), record(1, 1, 2), record(9, 0, 3));
    for (let size = 1; size <= bytes.length; size += 1) {
      const body = new Body();
      serve(body);
      for (let at = 0; at < bytes.length; at += size) body.give(bytes.slice(at, at + size));
      body.end();
      const seen: LargeRecord[] = [];
      await expect(readRecords("x", (found) => seen.push(found))).rejects.toThrow("ended");
      expect(seen.map(({ data, head }) => [[...new Uint8Array(data)], head])).toEqual([
        [[], 0],
        [[1, 1, 1, 1, 1], 3],
        [[2], 1],
        [[3, 3, 3, 3, 3, 3, 3, 3, 3], 0],
      ]);
    }
  });

  it("is refused by the relay, or for a record that is too long", async () => {
    serve(new Body(), 404);
    await expect(readRecords("x", () => undefined)).rejects.toThrow("404");
    const body = new Body();
    serve(body);
    body.give(Uint8Array.of(0, 0, 0, 0xff, 0, 0, 0, 0));
    await expect(readRecords("x", () => undefined)).rejects.toThrow("bytes");
  });
});

describe("a stream of large values", () => {
  it("is requested, fetched, and used from its first record on", async () => {
    const body = new Body();
    const fetched = serve(body);
    const { stream, socket } = fake();
    expect(socket.sent).toBe(1);
    expect(stream.takes(message(8)), "still by the WebSocket").toBe(false);
    expect(stream.takes("ws/large?0-ab")).toBe(true);
    expect(fetched).toEqual(["https://relay.test/site/ws/large?0-ab"]);
    await turns();
    expect(socket.sent).toBe(1);
    body.give(record(0, 0));
    await turns();
    expect(socket.sent).toBe(2);
    stream.close();
  });

  it("delays messages after an announcement, and none before it", async () => {
    const body = new Body();
    serve(body);
    const { stream, applied } = fake();
    stream.takes("ws/large?0-ab");
    body.give(record(0, 0));
    await turns();
    expect(stream.takes(message(8))).toBe(false);
    for (const waits of [ANNOUNCEMENT, message(16), ANNOUNCEMENT, message(24)]) {
      expect(stream.takes(waits)).toBe(true);
    }
    expect(applied).toEqual([]);
    body.give(record(100, 40));
    await turns();
    expect(applied).toEqual([
      [100, 40],
      [16, 16],
    ]);
    body.give(joined(record(101, 41), record(102, 42)));
    await turns();
    expect(applied.slice(2)).toEqual([
      [101, 41],
      [24, 24],
    ]);
    expect(stream.takes(message(8)), "all is in step").toBe(false);
    // A record may also be there before it is announced.
    expect(stream.takes(ANNOUNCEMENT)).toBe(true);
    expect(applied.at(-1)).toEqual([102, 42]);
    stream.close();
  });

  it("that can't be fetched is tried three times", async () => {
    const socket = { sent: 0, failed: [] };
    for (let nth = 1; nth <= 5; nth += 1) {
      serve(nth % 2 === 0 ? new Body() : undefined, 502);
      const { stream } = fake(socket);
      stream.takes("ws/large?0-ab");
      await turns();
      expect(stream.takes(message(8))).toBe(false);
      stream.close();
      expect(socket.sent).toBe(Math.min(nth, 3));
    }
    expect(socket.failed).toEqual([]);
  });

  it("that breaks in use ends the connection", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    for (const closed of [false, true]) {
      const body = new Body();
      serve(body);
      const { stream, socket, applied, clock } = fake();
      stream.takes("ws/large?0-ab");
      body.give(record(0, 0));
      await turns();
      stream.takes(ANNOUNCEMENT);
      if (closed) stream.close();
      body.give(record(100, 40).slice(0, 50));
      body.end();
      await turns();
      clock.advance(2000);
      expect(applied).toEqual([]);
      expect(socket.failed).toHaveLength(closed ? 0 : 1);
    }
  });

  it("that ends alone ends the connection with its next message", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const { body, clock, socket, stream } = await used();
    body.end();
    await turns();
    clock.advance(400);
    expect(stream.takes(message(8)), "sent before the end").toBe(false);
    clock.advance(200);
    expect(socket.failed).toEqual([]);
    stream.takes(message(8));
    expect(socket.failed).toEqual(["the stream of large values: the relay ended the stream"]);
    stream.close();
  });

  it("isn't blamed for its connection's end that comes late", async () => {
    const { body, clock, socket, stream } = await used();
    body.end();
    await turns();
    let suspendedMs = 0;
    const now = clock.now.bind(clock);
    clock.now = () => now() + suspendedMs;
    suspendedMs = 1000;
    clock.advance(500);
    expect(stream.takes(message(8)), "queued behind the timer").toBe(false);
    clock.advance(10_000);
    stream.close();
    expect(socket.failed).toEqual([]);
    const before = socket.sent;
    fake(socket, clock).stream.close();
    expect(socket.sent).toBe(before + 1);
  });

  it("that ends shortly before its connection is requested again by the next", async () => {
    const { body, clock, socket, stream } = await waiting();
    body.end();
    await turns();
    clock.advance(400);
    stream.close();
    clock.advance(1000);
    expect(socket.failed).toEqual([]);
    const before = socket.sent;
    fake(socket, clock).stream.close();
    expect(socket.sent).toBe(before + 1);
  });

  /** A stream in use. */
  async function used(socket = { sent: 0, failed: [] as string[] }, clock = createFakeClock()) {
    const body = new Body();
    serve(body);
    const all = fake(socket, clock);
    all.stream.takes("ws/large?0-ab");
    body.give(record(0, 0));
    await turns();
    return { ...all, body };
  }

  /** A stream in use, and a message that waits for the value announced before it. */
  async function waiting() {
    const all = await used();
    all.stream.takes(ANNOUNCEMENT);
    all.stream.takes(message(16));
    return all;
  }

  it("that stalls or trickles ends the connection before 3 s, and says so", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const { body, clock, socket, stream } = await waiting();
    const bytes = record(100, 40);
    for (let at = 0; at < 40; at += 1) {
      clock.advance(49);
      body.give(bytes.slice(at, at + 1));
      await turns();
      expect(socket.failed, String(clock.now())).toEqual([]);
    }
    clock.advance(1000);
    expect(socket.failed).toEqual(["the stream of large values: a value doesn't arrive"]);
    expect(warn.mock.calls.flat().join()).toContain("WebSocket");
    stream.close();
  });

  it("that is slow, but brings each value in time, stays in use", async () => {
    const { applied, body, clock, socket, stream } = await waiting();
    for (let nth = 1; nth <= 10; nth += 1) {
      clock.advance(1900);
      body.give(record(100, 40));
      await turns();
      expect(applied.filter(([bytes]) => bytes === 100)).toHaveLength(nth);
      stream.takes(ANNOUNCEMENT);
    }
    body.give(record(100, 40));
    await turns();
    clock.advance(60_000);
    expect(socket.failed).toEqual([]);
    stream.close();
  });

  it("that brings one value after the other delays no message for longer than one", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const { body, clock, socket, stream } = await waiting();
    for (const taken of [ANNOUNCEMENT, ANNOUNCEMENT, message(16)]) stream.takes(taken);
    clock.advance(1500);
    body.give(record(100, 40));
    await turns();
    clock.advance(400);
    expect(socket.failed).toEqual([]);
    clock.advance(200);
    expect(socket.failed).toEqual(["the stream of large values: a value doesn't arrive"]);
    stream.close();
  });

  it("isn't blamed for a page that was suspended", async () => {
    const { body, clock, socket, stream } = await waiting();
    let suspendedMs = 0;
    const now = clock.now.bind(clock);
    clock.now = () => now() + suspendedMs;
    // The timer comes late, and before the value, which arrived meanwhile.
    suspendedMs = 30_000;
    clock.advance(2000);
    expect(socket.failed).toEqual([]);
    clock.advance(1900);
    body.give(record(100, 40));
    await turns();
    clock.advance(60_000);
    expect(socket.failed).toEqual([]);
    stream.close();
  });

  it("that stalled is requested again after five minutes, three times in all", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const socket = { sent: 0, failed: [] as string[] };
    const clock = createFakeClock();
    const sentIn = (ms: number): number => {
      const before = socket.sent;
      clock.advance(ms);
      return socket.sent - before;
    };
    for (let nth = 1; nth <= 3; nth += 1) {
      const body = new Body();
      serve(body);
      const { stream } = fake(socket, clock);
      if (nth > 1) expect([sentIn(299_000), sentIn(2000)]).toEqual([0, 1]);
      stream.takes("ws/large?0-ab");
      body.give(joined(record(0, 0), record(100, 40)));
      await turns();
      for (const taken of [ANNOUNCEMENT, ANNOUNCEMENT, message(16)]) stream.takes(taken);
      clock.advance(3000);
      expect(socket.failed).toHaveLength(nth);
      stream.close();
    }
    fake(socket, clock);
    expect(sentIn(3_600_000)).toBe(0);
  });
});
