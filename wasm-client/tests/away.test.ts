/** Without a relay, or without files of the package, reads and writes say so at once. */

import { afterEach, describe, expect, it, vi } from "vitest";

import { Lazy } from "../ts/lazy.js";
import { LoadError, PvError, type PvData } from "../ts/index.js";
import { whyRefused as explain } from "../ts/link/refusal.js";
import { createFakeRelay } from "../ts/testing/index.js";
import { client, eachWithClient, FakeSocket, runPromises } from "./fake_relay.js";
import { pageWasm, wasm } from "./golden.js";

const whyRefused = (url: string): Promise<string | undefined> => explain(url, "pvwire.v1");

eachWithClient();

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

describe("get while the relay is away", () => {
  it("fails at once with the reason, waiting or new", async () => {
    const waiting = client.get(["A"]);
    await runPromises();
    FakeSocket.last.end(1006);
    const expected = {
      ok: false,
      error: {
        code: "RELAY_LOST",
        message: "the relay is out of reach (the relay can't be reached)",
      },
    };
    expect(await waiting).toMatchObject([expected]);
    expect(await client.get(["A", "B"])).toMatchObject([expected, expected]);
    vi.advanceTimersByTime(5000);
    FakeSocket.last.open();
    await runPromises();
    const again = client.get(["A"]);
    await runPromises();
    expect(FakeSocket.last.sent("get")).toHaveLength(1);
    FakeSocket.last.answer("got", "get");
    expect(await again).toMatchObject([{ ok: true }]);
  });

  it("ends after timeoutMs if it was sent before", async () => {
    const sent = client.get(["A"], { timeoutMs: 1000 });
    await runPromises();
    FakeSocket.last.open();
    await runPromises();
    FakeSocket.last.end(1006);
    vi.advanceTimersByTime(1100);
    expect(await sent).toMatchObject([{ ok: false, error: { code: "RELAY_LOST" } }]);
  });
});

describe("after a redeployment", () => {
  const gone = (): Promise<never> =>
    Promise.reject(new TypeError("Failed to fetch dynamically imported module"));

  it("a missing file is a LoadError that says to reload", async () => {
    const failed = await new Lazy(gone).load().catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(LoadError);
    expect((failed as Error).message).toContain("reload the page");
  });

  it("puts and calls resolve with a failure, and get rejects with a LoadError", async () => {
    vi.spyOn(Lazy.prototype, "load").mockImplementation(() =>
      Promise.reject(new LoadError("a file is gone")),
    );
    const failure = { ok: false, error: { code: "LOAD", mayBeWritten: false } };
    expect(await client.put("A", 1)).toMatchObject(failure);
    expect(await client.put("loc://a", 1)).toMatchObject(failure);
    expect(await client.putMany([["A", 1]])).toMatchObject([failure]);
    expect(await client.rpc("A", {})).toMatchObject(failure);
    await expect(client.get(["A"])).rejects.toMatchObject({ code: "LOAD" });
    await expect(client.put("A", 1, { timeoutMs: 0 })).rejects.toMatchObject({
      code: "BAD_OPTION",
    });
  });
});

describe("JSON.stringify", () => {
  it("writes the digits of 64-bit integers, and the messages of errors", async () => {
    vi.useRealTimers();
    const relay = createFakeRelay({
      ...(wasm && { wasm }),
      pvs: {
        BIG: { value: 9007199254740993n, type: "Int64" },
        BIGS: { value: BigInt64Array.of(1n, -2n) },
        TABLE: { value: { labels: ["n"], value: { n: BigInt64Array.of(5n), s: 6n } } },
      },
    });
    const own = relay.client(pageWasm === undefined ? {} : { pageWasm });
    await own.ready;
    const [big, bigs, table] = await own.get(["BIG", "BIGS", "TABLE"]);
    const read = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
    expect(read(big)).toMatchObject({ ok: true, data: { value: { bigint: "9007199254740993" } } });
    expect(JSON.stringify(bigs)).toContain('"-2"');
    expect(JSON.stringify(table)).toContain('"s":"6"');
    const [few] = await own.get(["BIG"], { selection: "{ value { exact: bigint } }" });
    expect(read(few)).toMatchObject({ data: { value: { exact: "9007199254740993" } } });
    own.pv("BIG").subscribe(() => undefined);
    await vi.waitFor(() => {
      expect(read(own.pv("BIG").getSnapshot() as PvData)).toMatchObject({
        value: { bigint: "9007199254740993" },
      });
    });
    relay.onPut = () => "jammed";
    expect(read(await own.put("BIG", 1n))).toMatchObject({
      ok: false,
      error: { code: "FAILED", message: "jammed", pv: "BIG", mayBeWritten: false },
    });
    relay.onPut = () => ({ readback: 7n });
    const outcome = await own.put("BIG", 8n);
    expect(outcome).toMatchObject({ ok: true, readback: 7n });
    expect(read(outcome)).toMatchObject({ ok: true, readback: "7" });
    expect(read(new PvError("A", "TIMED_OUT", "late"))).toMatchObject({ message: "late" });
    own.dispose();
  });
});

describe("a refused page", () => {
  const answers = (all: Readonly<Record<string, readonly [number, string, string?]>>): void => {
    vi.stubGlobal("fetch", (address: string) => {
      const answer = all[address];
      if (answer === undefined) return Promise.reject(new TypeError("Failed to fetch"));
      const [status, text, type = "text/plain; charset=utf-8"] = answer;
      return Promise.resolve(new Response(text, { status, headers: { "content-type": type } }));
    });
  };

  it("is told what the relay says", async () => {
    for (const [status, sentence] of [
      [403, "pages of this origin may not connect: the operator adds it by --allow-origin"],
      [421, "this host name is not one of the relay's"],
      [400, "this port accepts TLS only: use https:// and wss://"],
    ] as const) {
      answers({ "http://r.test/ws": [status, `${sentence}\n`] });
      expect(await whyRefused("ws://r.test/ws")).toBe(sentence);
    }
    answers({ "http://r.test/nothing": [404, "nothing here; try / /status /ws\n"] });
    expect(await whyRefused("ws://r.test/nothing")).toBe(
      "http://r.test/nothing isn't the address of a relay's WebSocket: nothing here; try / /status /ws",
    );
  });

  it("of a relay with a door for Coniql, which answers plain requests itself", async () => {
    const json = [400, '{"errors":[]}', "application/json"] as const;
    answers({ "http://r.test/ws": json });
    expect(await whyRefused("ws://r.test/ws")).toContain("proxy");
    expect(await whyRefused("wss://r.test/ws")).toContain("r.test has no TLS: use ws://");
  });

  it("is told of other subprotocols, proxies, ports without TLS and other servers", async () => {
    const handshakes = "/ws accepts WebSocket handshakes only, with the subprotocol";
    answers({ "http://r.test/ws": [426, `${handshakes} graphql-ws\n`] });
    expect(await whyRefused("ws://r.test/ws")).toContain(
      "graphql-ws, but this page speaks pvwire.v1",
    );
    answers({ "http://r.test/ws": [426, `${handshakes} pvwire.v1.lz4 or pvwire.v1\n`] });
    expect(await whyRefused("ws://r.test/ws")).toContain("proxy");
    answers({ "http://r.test/ws": [426, `${handshakes} pvwire.v1\n`] });
    expect(await whyRefused("wss://r.test/ws")).toContain("r.test has no TLS: use ws://");
    answers({ "http://r.test/ws": [400, "this port accepts TLS only\n"] });
    expect(await whyRefused("wss://r.test/ws")).toContain("certificate");
    answers({ "http://r.test/ws": [200, "<html>", "text/html"] });
    expect(await whyRefused("ws://r.test/ws")).toContain("is no relay (status 200)");
    for (const answer of [
      [502, "Bad Gateway"],
      [503, "<html>", "text/html"],
    ] as const) {
      answers({ "http://r.test/ws": answer });
      expect(await whyRefused("ws://r.test/ws")).toBeUndefined();
    }
    answers({});
    expect(await whyRefused("ws://r.test/ws")).toBeUndefined();
    expect(await whyRefused("wss://r.test/ws")).toBeUndefined();
  });
});
