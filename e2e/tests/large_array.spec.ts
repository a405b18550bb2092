/**
 * Large arrays arrive complete and without a copy by the stream, or by the WebSocket if there is no
 * stream.
 */

import type { PvClient } from "pvwire";

import type { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

/** Few enough that a busy machine passes each on in far less than the two seconds of a stall. */
const ELEMENTS = 200_000;
const NAME = `sim://waveform(size=${String(ELEMENTS)},rate_hz=2)`;

interface Waveform {
  readonly value: { readonly array: Float64Array | null } | null;
  readonly skipped: number;
  readonly skips: { readonly behind: number };
}

/** Shows the waveform until it has arrived this number of times; returns what was wrong with it. */
async function watch(demo: DemoPage, times: number) {
  return await demo.page.evaluate(
    async ([name, elements, times]) => {
      const client = window.__pvwireDemo?.client as PvClient;
      const pv = client.pv<Waveform>(name, "{ value { array } skipped skips { behind } }");
      const [wrong, buffers] = [[] as string[], new Set<unknown>()];
      await new Promise<void>((resolve) => {
        const stop = pv.subscribe(() => {
          const array = pv.getSnapshot()?.value?.array;
          if (array == null) return;
          if (array.length !== elements) wrong.push(`${String(array.length)} elements`);
          if (!array.every((value) => Math.abs(value) <= 1)) wrong.push("no sine");
          // A view on the message, with a few bytes before the elements.
          const before = array.buffer.byteLength - array.byteLength;
          if (before <= 0 || before > 4096) wrong.push(`${String(before)} bytes before`);
          buffers.add(array.buffer);
          if (buffers.size < times) return;
          stop();
          resolve();
        });
      });
      const { skipped = 0, skips } = pv.getSnapshot() ?? {};
      // On an overloaded machine a page may fall behind, which is counted as such.
      const lost = skipped - (skips?.behind ?? 0);
      return { wrong, lost, stats: client.stats.getSnapshot() };
    },
    [NAME, ELEMENTS, times] as const,
  );
}

/** A relay's counter. */
async function metric(port: number, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

const streamed = "pvwire_large_frames_streamed_total";

/** Shows the waveform until more than `count` values have come by the stream. */
async function expectStreamed(demo: DemoPage, port: number, count: number): Promise<void> {
  await expect
    .poll(async () => {
      expect((await watch(demo, 4)).wrong).toEqual([]);
      return await metric(port, streamed);
    })
    .toBeGreaterThan(count);
}

test("large array: by the stream, complete, without loss or copy", async ({ demo, relay }) => {
  const warnings: string[] = [];
  demo.page.on("console", (message) => {
    if (message.type() === "warning") warnings.push(message.text());
  });
  await expect(demo.cells.first()).toBeVisible();
  const { wrong, lost, stats } = await watch(demo, 8);
  expect(wrong).toEqual([]);
  expect(lost).toBe(0);
  expect(stats).toMatchObject({ gapsTotal: 0, reconnectsTotal: 0 });
  // The first ones arrive by the WebSocket until there is a stream, all others by the stream.
  await expectStreamed(demo, relay.port, 0);
  await expectStreamed(demo, relay.port, 2 + (await metric(relay.port, streamed)));
  // It continues after a restart of the relay.
  await relay.restart();
  await expect(demo.connection).toHaveAttribute("data-connection", "open");
  await expectStreamed(demo, relay.port, 0);
  expect(warnings).toEqual([]);
});

test("large array where no stream gets through: by the WebSocket", async ({ demo, relay }) => {
  // The answer of a proxy without a rule for this address.
  await demo.page.context().route("**/ws/large?*", async (route) => {
    await route.fulfill({ contentType: "text/html", body: "<!doctype html><title>app</title>" });
  });
  await expect(demo.cells.first()).toBeVisible();
  const { wrong, stats } = await watch(demo, 4);
  expect(wrong).toEqual([]);
  expect(stats).toMatchObject({ gapsTotal: 0, reconnectsTotal: 0 });
  expect(await metric(relay.port, streamed)).toBe(0);
});
