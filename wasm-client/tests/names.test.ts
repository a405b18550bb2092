/** Searches for names: results, pages, aborts, and a relay that is lost or doesn't answer. */

import { expect, it } from "vitest";

import { AskError, type NamesOptions } from "../ts/index.js";
import { createFakeRelay } from "../ts/testing/index.js";
import { Hub } from "../ts/worker/hub.js";
import { client, clock, eachWithFakeRelay, relay } from "./faked.js";
import { wasm } from "./golden.js";

eachWithFakeRelay({
  "SR:TEMP:10": 1,
  "SR:TEMP:1": 2,
  TEMP: 3,
  "temp:2": 4,
  "BR:I": 5,
  "A.B(1)": 6,
});

const runTasks = async (): Promise<void> => {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setTimeout(resolve, 0));
};

async function named(text: string, options?: NamesOptions): Promise<string[]> {
  const { names } = await client.names(text, options);
  return names.map(({ name }) => name);
}

it("gives names that begin with the text first, then short ones, then by the alphabet", async () => {
  expect(await named(" Temp ")).toEqual(["TEMP", "temp:2", "SR:TEMP:1", "SR:TEMP:10"]);
  expect(await named("sr:*:1?")).toEqual(["SR:TEMP:10"]);
  expect(await named("?R:I")).toEqual(["BR:I"]);
  expect(await named("a.b(*")).toEqual(["A.B(1)"]);
  expect(await named("nothing")).toEqual([]);
  const { names } = await client.names("br");
  expect(names).toEqual([{ name: "BR:I", protocol: "ca", from: ["relay"] }]);
});

it("continues after the last name of an earlier result", async () => {
  const first = await client.names("temp", { limit: 3 });
  expect(first.names).toHaveLength(3);
  const { next: after } = first;
  expect(after).toBeDefined();
  const rest = await client.names("temp", { limit: 3, ...(after !== undefined && { after }) });
  expect(rest).toEqual({ names: [{ name: "SR:TEMP:10", protocol: "ca", from: ["relay"] }] });
});

it("offers no PV that was not found or is refused", async () => {
  client.pv("TEMP:MISTYPED").subscribe(() => undefined);
  relay.refuse("TEMP", "rule 1 denies it");
  await runTasks();
  expect(await named("temp")).toEqual(["temp:2", "SR:TEMP:1", "SR:TEMP:10"]);
});

it("rejects with the reason of its signal, before and after it was sent", async () => {
  const early = new AbortController();
  early.abort(new Error("typed on"));
  await expect(client.names("temp", { signal: early.signal })).rejects.toThrow("typed on");
  await named("temp");
  const late = new AbortController();
  const names = client.names("temp", { signal: late.signal });
  await Promise.resolve();
  late.abort();
  await expect(names).rejects.toThrow(/abort/i);
  expect(await named("br")).toEqual(["BR:I"]);
});

it("rejects when the relay is lost or does not answer, and when the text is too long", async () => {
  await expect(client.names("µ".repeat(257))).rejects.toMatchObject({ code: "BAD_VALUE" });
  await named("temp");
  relay.lose();
  await expect(client.names("temp")).rejects.toMatchObject({ code: "RELAY_LOST" });
  relay.restore();
  clock.advance(60_000);
  await runTasks();
  expect(await named("br")).toEqual(["BR:I"]);

  const deaf = createFakeRelay({ clock, ...(wasm && { wasm }) });
  const other = deaf.client({
    webSocket: class extends deaf.webSocket {
      override send(): void {
        // Everything is lost.
      }
    },
  });
  await other.ready;
  const names = other.names("temp", { timeoutMs: 700 });
  await runTasks();
  clock.advance(699);
  await runTasks();
  clock.advance(1);
  const error = await names.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(AskError);
  expect(error).toMatchObject({ code: "TIMED_OUT", message: "no answer within 700 ms" });
  other.dispose();
});

it("reaches the page that asked when pages share a connection, and its cancellation the relay", async () => {
  const sent: Uint8Array[] = [];
  const hub = new Hub("ws://fake.relay/ws", () => {
    const socket = new relay.webSocket("ws://fake.relay/ws");
    const send = socket.send.bind(socket);
    socket.send = (bytes) => {
      sent.push((bytes as Uint8Array).slice());
      send(bytes);
    };
    return socket;
  });
  class PageSocket {
    readyState = 1;
    onmessage: ((event: { data: unknown }) => void) | null = null;
    onclose: ((event: { code: number }) => void) | null = null;
    #take = hub.join({
      postMessage: (message) => {
        queueMicrotask(() => this.onmessage?.({ data: message }));
      },
    });

    send(bytes: Uint8Array<ArrayBuffer>): void {
      this.#take(bytes.slice().buffer);
    }

    close(): void {
      this.#take(undefined);
    }
  }
  const webSocket = PageSocket as unknown as typeof WebSocket;
  const pages = [relay.client({ webSocket }), relay.client({ webSocket })] as const;
  await Promise.all(pages.map((page) => page.ready));
  const [one, other] = await Promise.all([pages[0].names("br"), pages[1].names("sr")]);
  expect(one.names).toHaveLength(1);
  expect(other.names).toHaveLength(2);

  const abort = new AbortController();
  const before = sent.length;
  const names = pages[1].names("sr", { signal: abort.signal });
  await Promise.resolve();
  await Promise.resolve();
  await Promise.resolve();
  abort.abort();
  await expect(names).rejects.toThrow(/abort/i);
  await runTasks();
  const requests = sent.slice(before).map((bytes) => new TextDecoder("latin1").decode(bytes));
  const asks = requests.filter((text) => text.includes("names"));
  expect(asks.length).toBeLessThanOrEqual(1);
  // A question that was sent is cancelled by the number that the shared connection has given it.
  expect(sent.length - before).toBeGreaterThanOrEqual(2 * asks.length);
  for (const page of pages) page.dispose();
});
