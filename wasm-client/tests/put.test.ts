/** Each put and call gets its result, and nothing is sent later than it was meant for. */

import { describe, expect, it, vi } from "vitest";

import type { PvClient } from "../ts/index.js";
import { PutError } from "../ts/index.js";
import { client, eachWithClient, FakeSocket, runPromises } from "./fake_relay.js";

eachWithClient();

/** A connected client and its socket. */
async function connected(): Promise<FakeSocket> {
  client.connection.subscribe(() => undefined);
  await runPromises();
  const socket = FakeSocket.last;
  socket.open();
  await runPromises();
  return socket;
}

describe("a put", () => {
  it("says that it is done", async () => {
    const socket = await connected();
    const result = client.put("A", 1.5);
    await runPromises();
    expect(socket.sent("put").map((request) => request.names)).toEqual([["A"]]);
    socket.answer("put_written", "put");
    await expect(result).resolves.toEqual({ ok: true, superseded: false });
  });

  it("larger than the relay's longest request says so and is not sent, alone or among others", async () => {
    const socket = await connected();
    const large = new Float64Array(200_000);
    const refused = {
      ok: false,
      error: expect.objectContaining({ code: "BAD_VALUE", mayBeWritten: false }) as PutError,
    };
    await expect(client.put("A", large)).resolves.toEqual(refused);
    await expect(client.rpc("S", { large })).resolves.toEqual(refused);
    const both = client.putMany([
      ["A", large],
      ["B", 1],
    ]);
    await runPromises();
    expect(socket.sent("put").map((request) => request.names)).toEqual([["B"]]);
    socket.answer("put_written", "put");
    const results = await both;
    expect(results).toEqual([refused, { ok: true, superseded: false }]);
    const [first] = results;
    expect(first?.ok === false && first.error.message).toMatch(/1048576 bytes/);
    expect(client.connection.getSnapshot().state).toBe("open");
  });

  it("says what the PV holds when the IOC limited or cut the value", async () => {
    const socket = await connected();
    const result = client.put("A", 9);
    await runPromises();
    socket.answer("put_held", "put");
    await expect(result).resolves.toEqual({
      ok: true,
      superseded: false,
      readback: 3,
      message: "the PV now holds 3",
    });
  });

  it("with checkLimits is sent so that the relay checks the limits, and no older relay writes it", async () => {
    const socket = await connected();
    const result = client.put("A", 30, { checkLimits: true });
    await runPromises();
    expect(socket.sent("put")).toEqual([]);
    expect(socket.sent("putWithin").map((request) => request.names)).toEqual([["A"]]);
    socket.answer("put_done", "putWithin");
    await expect(result).resolves.toMatchObject({ ok: false, error: { code: "BAD_VALUE" } });
    const both = client.putMany(
      [
        ["A", 1],
        ["B", 2],
      ],
      { checkLimits: true },
    );
    await runPromises();
    expect(socket.sent("putWithin").at(-1)?.names).toEqual(["A", "B"]);
    socket.answer("put_written", "putWithin", undefined, 0);
    socket.answer("put_written", "putWithin", undefined, 1);
    await expect(both).resolves.toMatchObject([{ ok: true }, { ok: true }]);
  });

  it("says why it isn't", async () => {
    const socket = await connected();
    const result = client.put("A", "abc");
    await runPromises();
    socket.answer("put_done", "put");
    const { error } = (await result) as { error: PutError };
    expect(error).toBeInstanceOf(PutError);
    expect(error).toMatchObject({
      code: "BAD_VALUE",
      message: '"abc" is no number',
      pv: "A",
      mayBeWritten: false,
    });
  });

  it("of a value that can't be written isn't sent", async () => {
    const socket = await connected();
    for (const value of [2n ** 64n, [1, "a"], { a: 1 }, [2n ** 64n], [2n ** 63n, -1n]]) {
      const result = await client.put("A", value as unknown as number);
      expect(result).toMatchObject({ ok: false, error: { code: "BAD_VALUE" } });
    }
    expect(socket.sent("put")).toEqual([]);
  });

  it("takes every kind of value", async () => {
    const socket = await connected();
    const values = [
      1,
      -1n,
      2n ** 63n,
      true,
      "x",
      [1, 2],
      ["a", ""],
      [1n],
      [2n ** 63n],
      [],
      Int16Array.of(1),
    ];
    for (const value of values) {
      const result = client.put("A", value);
      await runPromises();
      socket.answer("put_written", "put");
      await expect(result).resolves.toMatchObject({ ok: true });
    }
    expect(socket.sent("put")).toHaveLength(values.length);
  });

  it("waits for the first connection; fails while it is lost", async () => {
    const early = client.put("A", 1);
    await runPromises();
    const socket = FakeSocket.last;
    expect(socket.sent("put")).toEqual([]);
    socket.open();
    await runPromises();
    expect(socket.sent("put")).toHaveLength(1);
    socket.end(1006);
    const { error } = (await early) as { error: PutError };
    expect(error).toMatchObject({ code: "RELAY_LOST", mayBeWritten: true });

    const late = (await client.put("A", 2)) as { error: PutError };
    expect(late.error).toMatchObject({ code: "RELAY_LOST", mayBeWritten: false });
    vi.advanceTimersByTime(60_000);
    FakeSocket.last.open();
    await runPromises();
    expect(FakeSocket.last.sent("put")).toEqual([]);
  });

  it("times out without an answer and ignores a late one", async () => {
    const socket = await connected();
    const result = client.put("A", 1, { timeoutMs: 1000 });
    await runPromises();
    vi.advanceTimersByTime(6001);
    const { error } = (await result) as { error: PutError };
    expect(error).toMatchObject({ code: "TIMED_OUT", mayBeWritten: true });
    socket.answer("put_written", "put");
  });

  it("bound to what the page shows needs a page that shows it", async () => {
    const socket = await connected();
    const result = await client.put("A", 1, { onlyIfUnchanged: true });
    expect(result).toMatchObject({ ok: false, error: { code: "NOT_CONNECTED" } });
    expect(socket.sent("put")).toEqual([]);
  });
});

describe("several puts", () => {
  const putsOf = (names: readonly string[]): [string, number][] => names.map((name) => [name, 1]);

  it("are one message, in order, and each learns its outcome", async () => {
    const socket = await connected();
    const results = client.putMany(putsOf(["A", "B", "A", "C"]));
    await runPromises();
    expect(socket.sent("put")).toEqual([]);
    expect(socket.sent("putMany").map(({ names }) => names)).toEqual([["A", "B", "A", "C"]]);
    socket.answer("put_written", "putMany", undefined, 3);
    socket.answer("put_done", "putMany", undefined, 1);
    socket.answer("put_held", "putMany", undefined, 0);
    socket.answer("put_written", "putMany", undefined, 2);
    const [first, second, ...others] = await results;
    expect(first).toMatchObject({ ok: true, readback: 3 });
    expect(second).toMatchObject({ ok: false, error: { pv: "B", code: "BAD_VALUE" } });
    const done = { ok: true, superseded: false };
    expect(others).toEqual([done, done]);
  });

  it("leave out what can't be written, and what lives in the page", async () => {
    const socket = await connected();
    const results = client.putMany([
      ["A", 1],
      ["loc://x(0)", 5],
      ["B", 2n ** 70n],
      ["C", 2],
    ]);
    await runPromises();
    expect(socket.sent("putMany").map(({ names }) => names)).toEqual([["A", "C"]]);
    socket.answer("put_written", "putMany", undefined, 0);
    socket.answer("put_written", "putMany", undefined, 1);
    const codes = (await results).map((result) => (result.ok ? "ok" : result.error.code));
    expect(codes).toEqual(["ok", "ok", "BAD_VALUE", "ok"]);
  });

  it("beyond 32 go when the first ones are answered", async () => {
    const socket = await connected();
    const results = client.putMany(putsOf(Array.from({ length: 40 }, (_, at) => `P${String(at)}`)));
    await runPromises();
    expect(socket.sent("putMany").map(({ names }) => names.length)).toEqual([32]);
    for (let nth = 0; nth < 4; nth += 1) socket.answer("put_written", "putMany", undefined, nth);
    expect(socket.sent("putMany").map(({ names }) => names.length)).toEqual([32, 8]);
    for (let nth = 0; nth < 8; nth += 1) socket.answer("put_written", "putMany", undefined, nth);
    socket.end(1006);
    const all = await results;
    expect(all.filter(({ ok }) => ok)).toHaveLength(12);
    expect(all.filter((result) => !result.ok && result.error.mayBeWritten)).toHaveLength(28);
  });

  it("that are to be permitted all or not sent say which one isn't", async () => {
    const socket = await connected();
    const bad = await client.putMany(
      [
        ["A", 1],
        ["B", 2n ** 70n],
      ],
      { allPermitted: true },
    );
    expect(bad.map((result) => !result.ok && result.error.code)).toEqual(["WITHHELD", "BAD_VALUE"]);
    const many = await client.putMany(putsOf(Array.from({ length: 33 }, () => "A")), {
      allPermitted: true,
    });
    expect(many.every((result) => !result.ok && result.error.code === "BAD_VALUE")).toBe(true);
    expect(socket.sent("putMany")).toEqual([]);
  });

  it("that the relay doesn't support fail without a write", async () => {
    const socket = await connected();
    const results = client.putMany(putsOf(["A", "B"]));
    await runPromises();
    socket.answer("error", "putMany");
    for (const result of await results) {
      expect(result).toMatchObject({
        ok: false,
        error: { code: "NOT_SUPPORTED", mayBeWritten: false },
      });
    }
  });
});

describe("a slider's puts", () => {
  it("are sent one at a time, the latest wins, each has a result", async () => {
    const socket = await connected();
    const slide = (value: number): ReturnType<PvClient["put"]> =>
      client.put("A", value, { coalesce: true });
    const [first, second, third] = [slide(1), slide(2), slide(3)];
    await runPromises();
    expect(socket.sent("put")).toHaveLength(1);
    socket.answer("put_written", "put");
    await expect(first).resolves.toEqual({ ok: true, superseded: false });
    await runPromises();
    expect(socket.sent("put")).toHaveLength(2);
    socket.answer("put_written", "put");
    await expect(second).resolves.toEqual({ ok: true, superseded: true });
    await expect(third).resolves.toEqual({ ok: true, superseded: false });
  });

  it("that fail tell those that gave way too", async () => {
    const socket = await connected();
    const slide = (): ReturnType<PvClient["put"]> => client.put("A", 1, { coalesce: true });
    const [first, second, third] = [slide(), slide(), slide()];
    await runPromises();
    socket.answer("put_written", "put");
    await first;
    await runPromises();
    socket.answer("put_done", "put");
    await expect(second).resolves.toMatchObject({ ok: false });
    await expect(third).resolves.toMatchObject({ ok: false });
  });

  it("don't hold up another PV's", async () => {
    const socket = await connected();
    void client.put("A", 1, { coalesce: true });
    void client.put("A", 2, { coalesce: true });
    void client.put("B", 3, { coalesce: true });
    await runPromises();
    expect(socket.sent("put").map((request) => request.names)).toEqual([["A"], ["B"]]);
  });
});

describe("a call", () => {
  it("gives the service's answer as an object", async () => {
    const socket = await connected();
    const result = client.rpc("pva://SERVICE", { a: 1, b: "x", c: 2n });
    await runPromises();
    expect(socket.sent("rpc").map((request) => request.names)).toEqual([["pva://SERVICE"]]);
    socket.answer("rpc_done", "rpc");
    await expect(result).resolves.toEqual({ ok: true, data: { value: 0.1 } });
  });

  it("with an argument that can't be one isn't sent", async () => {
    const socket = await connected();
    const result = await client.rpc("pva://SERVICE", { a: 2n ** 70n });
    expect(result).toMatchObject({ ok: false, error: { code: "BAD_VALUE" } });
    expect(socket.sent("rpc")).toEqual([]);
  });
});
