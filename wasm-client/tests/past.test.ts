/** A client asks the relay for the past of PVs, by its own calls and by GraphQL. */

import { expect, it } from "vitest";

import { createGraphqlClient } from "../ts/graphql/index.js";
import { PastLoader } from "../ts/history/loader.js";
import { joined } from "../ts/history/pages.js";
import type { PvHistory } from "../ts/index.js";
import { Hub } from "../ts/worker/hub.js";
import { client, clock, eachWithFakeRelay, relay } from "./faked.js";

eachWithFakeRelay();

/** An update a second. */
function updates(name: string, values: readonly (number | string)[]): void {
  for (const value of values) {
    clock.advance(1000);
    relay.set(name, value);
  }
}

const begin = BigInt(Date.UTC(2026, 0, 1)) * 1_000_000n;
const second = (count: number): bigint => begin + BigInt(count) * 1_000_000_000n;

it("has values, times, alarms and gaps, from the value that held at the begin", async () => {
  updates("TEMP", [1, 2, 3]);
  relay.set("TEMP", { value: 4, severity: "MAJOR", alarmStatus: 3 });
  clock.advance(1000);
  relay.set("TEMP", { state: "disconnected" });
  const all = await client.history("TEMP");
  expect([...all.numbers]).toEqual([1, 2, 3, 4]);
  expect([...all.timeNs]).toEqual([1, 2, 3, 3].map(second));
  expect([...all.severities]).toEqual([0, 0, 0, 2]);
  expect([...all.statuses]).toEqual([0, 0, 0, 3]);
  expect(all.gaps).toEqual([{ cause: "disconnected", fromNs: second(4), toNs: undefined }]);
  expect(all).toMatchObject({ hasHeld: false, keptSinceNs: second(1), sequence: 4 });
  const late = await client.history("TEMP", { from: "-2s", to: second(3) });
  expect([...late.numbers]).toEqual([2, 3, 4]);
  expect(late.hasHeld).toBe(true);
  const byDate = await client.history("TEMP", { from: new Date(Date.UTC(2026, 0, 1, 0, 0, 3)) });
  expect([...byDate.numbers]).toEqual([4]);
  updates("TEXT", ["a", "ä"]);
  const texts = await client.history("TEXT");
  expect([...texts.texts]).toEqual([
    [0, "a"],
    [1, "ä"],
  ]);
  expect((await client.history("UNKNOWN")).keptSinceNs).toBeUndefined();
});

it("says why what another relay has is missing", () => {
  const why = "the relay that holds the PV is lost";
  const head = JSON.stringify({ kept_since_ns: null, tick: "7", incomplete: why, last: true });
  const text = head.padEnd(8 * Math.ceil(head.length / 8));
  const page = new Uint8Array(8 + text.length);
  page[0] = text.length;
  page.set(new TextEncoder().encode(text), 8);
  expect(joined("A", [page.buffer]).kept).toMatchObject({ tick: 7n, incomplete: why });
});

it("joins many pages, also of several questions on a connection that pages share", async () => {
  const values = Array.from({ length: 3500 }, (_, index) => index);
  updates("A", values);
  updates("B", values.slice(0, 1500));
  const hub = new Hub("ws://fake.relay/ws", () => new relay.webSocket("ws://fake.relay/ws"));
  class PageSocket {
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

    send(bytes: Uint8Array): void {
      this.#take(bytes.slice().buffer);
    }

    close(): void {
      this.#take(undefined);
    }
  }
  const pages = [1, 2].map(() =>
    relay.client({ webSocket: PageSocket as unknown as typeof WebSocket }),
  );
  for (const each of [client, ...pages]) {
    // More questions than may be open at a time.
    const names = Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? "A" : "B"));
    const answers = await Promise.all(names.map((name) => each.history(name)));
    for (const [at, { numbers }] of answers.entries()) {
      expect([...numbers]).toEqual(at % 2 === 0 ? values : values.slice(0, 1500));
    }
  }
  for (const each of pages) each.dispose();
});

it("rejects with the relay's reason, the loss of the relay, or the signal's reason", async () => {
  const rejected = async (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      () => "answered",
      (error: unknown) => error,
    );
  expect(await rejected(client.history("A", { from: "yesterday" }))).toMatchObject({
    code: "BAD_VALUE",
  });
  const ended = new AbortController();
  const question = client.history("A", { signal: ended.signal });
  ended.abort(new Error("left the page"));
  expect(await rejected(question)).toMatchObject({ message: "left the page" });
  expect(await rejected(client.history("A", { signal: ended.signal }))).toMatchObject({
    message: "left the page",
  });
  updates("A", [1]);
  expect([...(await client.history("A")).numbers], "others are answered").toEqual([1]);
  const lost = rejected(client.history("A"));
  relay.lose();
  expect(await lost).toMatchObject({ code: "RELAY_LOST" });
  client.dispose();
  expect(await rejected(client.history("A"))).toMatchObject({ code: "CLOSED" });
});

it("is requested again when more is wanted", async () => {
  updates("A", [1, 2, 3, 4]);
  const answers: PvHistory[] = [];
  let from = "-1s";
  const ended = new AbortController();
  const loader = new PastLoader({
    client,
    name: "A",
    signal: ended.signal,
    range: () => ({ from }),
    onPast: ({ past }) => answers.push(past),
    onFailed: (error) => {
      throw error;
    },
  });
  // The connection begins with what needs it.
  await client.history("A");
  loader.seen({ timeNs: second(4), number: 4, missed: 0 });
  await expect.poll(() => answers.length).toBe(1);
  loader.seen(undefined);
  from = "-3s";
  loader.again();
  await expect.poll(() => answers.length).toBe(2);
  ended.abort();
  expect(answers.map(({ numbers }) => [...numbers])).toEqual([
    [3, 4],
    [1, 2, 3, 4],
  ]);
});

eachWithFakeRelay();

it("by GraphQL is that of the client, by aliases and with variables", async () => {
  for (const value of [1, 2]) {
    clock.advance(1000);
    relay.set("TEMP", value);
  }
  relay.set("TEMP", { value: 2.5, severity: "MAJOR", alarmStatus: 3 });
  clock.advance(1000);
  const query = `query ($id: ID!, $from: String) {
    all: history(id: $id)
    history(id: $id, from: $from, to: null, points: 100)
    getChannel(id: $id) { value { float } }
  }`;
  const graphql = createGraphqlClient(client);
  const { data, errors } = await graphql.execute<Record<"all" | "history", PvHistory>>({
    query,
    variables: { id: "TEMP", from: "-2s" },
  });
  expect(errors).toBeUndefined();
  expect(data?.all).toEqual(await client.history("TEMP"));
  expect([...(data?.all.numbers ?? [])]).toEqual([1, 2, 2.5]);
  expect(data?.history).toEqual(await client.history("TEMP", { from: "-2s", points: 100 }));
  expect(data?.history.hasHeld).toBe(true);
  expect(data).toMatchObject({ getChannel: { value: { float: 2.5 } } });
});

it("by GraphQL is null with an error if the relay refuses the question", async () => {
  relay.set("TEMP", 1);
  const query = `{ history(id: "TEMP") wrong: history(id: "TEMP", from: "yesterday") }`;
  const { data, errors } = await createGraphqlClient(client).execute({ query });
  expect(data).toMatchObject({ history: { name: "TEMP" }, wrong: null });
  expect(errors).toMatchObject([{ path: ["wrong"], extensions: { code: "BAD_VALUE" } }]);
});
