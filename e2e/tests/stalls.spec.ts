/**
 * The page while an IOC doesn't answer, and when it withdraws read access. While the stream of large values stalls or is
 * buffered, the page's other PVs go on within 3 s, the page says so, and large values arrive all the same.
 */

import type { PvClient } from "pvwire";

import { type StreamFault, StreamProxy } from "../../testbed/ts/link_proxy";
import { within } from "../../testbed/ts/within";
import { servePage } from "../fixtures/built_pages";
import { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

/** Longer than the connection's time-out, which ends after 10 s. */
const STALL_MS = 15_000;
const SHOWN_WITHIN_MS = 3000;

test("IOC hangs 15 s: no news in 3 s, disconnected, right again", async ({ demo, ioc }) => {
  const seen = await demo.notesStatesOf("OP:MESSAGE");
  await demo.open();
  await ioc.put("OP:MESSAGE", "before the stall");
  const [message, voltage] = [demo.readback("OP:MESSAGE"), demo.readback("RF:VOLTAGE:SET")];
  const access = voltage.locator("[data-access]");
  await expect(demo.value("OP:MESSAGE")).toHaveText("before the stall");
  await expect(access).toHaveAttribute("data-access", "write");
  await expect(voltage).toHaveAttribute("data-severity", "NO_ALARM");

  let begin = 0;
  await within(SHOWN_WITHIN_MS, async () => {
    ioc.resume();
    await expect(demo.condition("OP:MESSAGE")).not.toHaveText(/No response|old since/);
    begin = Date.now();
    ioc.hang();
    await expect(demo.condition("OP:MESSAGE")).toHaveText(/^No response since \d\d:\d\d:\d\d$/);
    return Date.now() - begin;
  });
  await expect(demo.condition("RF:VOLTAGE:SET")).toHaveText(/^No response since/);
  // No earlier value looks current, neither by text nor by colour.
  await expect(voltage).not.toHaveAttribute("data-severity");
  await expect(message).toHaveAttribute("data-stale", "true");
  await expect(demo.value("OP:MESSAGE")).toHaveText("before the stall");

  await expect(message).toHaveAttribute("data-state", "disconnected");
  const [silent, old] = (await seen()).slice(-2);
  expect(silent).toMatch(/^connected: No response since \d\d:\d\d:\d\d$/);
  expect(old).toMatch(/^disconnected: Disconnected · old since \d\d:\d\d:\d\d$/);
  expect(old?.slice(-8), "old since the last news, not since the disconnect").toBe(
    silent?.slice(-8),
  );
  await demo.page.waitForFunction((end) => Date.now() >= end, begin + STALL_MS);
  ioc.resume();

  await expect(message).toHaveAttribute("data-state", "connected");
  await expect(voltage).toHaveAttribute("data-severity", "NO_ALARM");
  await expect(access).toHaveAttribute("data-access", "write");
  await expect(demo.condition("OP:MESSAGE")).not.toHaveText(/No response|old since/);
  await ioc.put("OP:MESSAGE", "after the stall");
  await expect(demo.value("OP:MESSAGE")).toHaveText("after the stall");
});

test("relay hangs: the page says so in 4 s and recovers", async ({ demo, ioc, page, relay }) => {
  await ioc.put("OP:MESSAGE", "before the stall");
  const message = demo.readback("OP:MESSAGE");
  await expect(demo.value("OP:MESSAGE")).toHaveText("before the stall");
  const banner = page.locator("[data-banner=silent]");
  const troubles = page.locator(".troubles");
  await expect(banner).toHaveCount(0);

  await within(4000, async () => {
    relay.resume();
    await expect(banner).toHaveCount(0);
    const begin = Date.now();
    relay.hang();
    await expect(banner).toContainText("No response from the relay");
    return Date.now() - begin;
  });
  await expect(page.locator(".connection")).toContainText("No response");
  await expect(demo.condition("OP:MESSAGE")).toHaveText(/^No response since/);
  await expect(message).not.toHaveAttribute("data-severity");
  await expect(troubles).toContainText("without response");
  await expect(troubles).not.toContainText("minor");
  relay.resume();

  await expect(banner).toHaveCount(0);
  await expect(demo.condition("OP:MESSAGE")).not.toHaveText(/No response/);
  await expect(message).toHaveAttribute("data-severity", "NO_ALARM");
  await expect(troubles).not.toContainText("without response");
  await ioc.put("OP:MESSAGE", "after the stall");
  await expect(demo.value("OP:MESSAGE")).toHaveText("after the stall");
});

test("revoked read access leaves no value, for late pages too", async ({
  demo,
  ioc,
  pageUrl,
  context,
}) => {
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.40 MV");
  await ioc.put("RF:VOLTAGE:SET.ASG", "HIDDEN");
  const late = new DemoPage(await context.newPage(), pageUrl, ioc);
  await expect(demo.condition("RF:VOLTAGE:SET")).toHaveText("No read access");
  await late.open();
  for (const page of [demo, late]) {
    await expect(page.condition("RF:VOLTAGE:SET")).toHaveText("No read access");
    await expect(page.value("RF:VOLTAGE:SET")).toHaveText("–");
    await expect(page.readback("RF:VOLTAGE:SET")).not.toHaveAttribute("data-severity");
    await expect(page.readback("RF:VOLTAGE:SET").locator("time")).toHaveCount(0);
  }

  await ioc.put("RF:VOLTAGE:SET", 1.8);
  await ioc.put("RF:VOLTAGE:SET.ASG", "OPERATOR");
  for (const page of [demo, late]) {
    await expect(page.value("RF:VOLTAGE:SET")).toHaveText("1.80 MV");
    await expect(page.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-severity", "NO_ALARM");
  }
});

const GOES_ON_WITHIN_MS = 3000;
const ELEMENTS = 100_000;
const COUNTER = "sim://counter(rate_hz=20)";
const WAVE = `sim://waveform(${String(ELEMENTS)},rate_hz=5)`;

/** What a page has received since it watches. */
interface Watched {
  small: number;
  large: number;
  /** The longest time without a small value. */
  longestMs: number;
  wrong: string[];
  banners: string[];
}

declare global {
  interface Window {
    __watched?: Watched;
  }
}

/** Watches a small and a large PV, and what the page's banner says. */
function watch([counter, wave, elements]: readonly [string, string, number]): void {
  const client = window.__pvwireDemo?.client as PvClient;
  const watched: Watched = { small: 0, large: 0, longestMs: 0, wrong: [], banners: [] };
  window.__watched = watched;
  let [lastMs, last] = [performance.now(), 0];
  const small = client.pv<{ value: { number: number } | null }>(counter, "{ value { number } }");
  small.subscribe(() => {
    const number = small.getSnapshot()?.value?.number;
    if (number === undefined || number === last) return;
    if (number < last) watched.wrong.push(`${String(number)} after ${String(last)}`);
    last = number;
    const nowMs = performance.now();
    if (watched.small > 0) watched.longestMs = Math.max(watched.longestMs, nowMs - lastMs);
    lastMs = nowMs;
    watched.small += 1;
  });
  const large = client.pv<{ value: { array: Float64Array | null } | null }>(
    wave,
    "{ value { array } }",
  );
  let before: unknown;
  large.subscribe(() => {
    const array = large.getSnapshot()?.value?.array;
    if (array == null || array === before) return;
    before = array;
    if (array.length !== elements) watched.wrong.push(`${String(array.length)} elements`);
    if (!array.every((value) => Math.abs(value) <= 1)) watched.wrong.push("no sine");
    watched.large += 1;
  });
  new MutationObserver(() => {
    const text = document.querySelector("[data-banner]")?.textContent ?? "";
    if (text !== "" && text !== watched.banners.at(-1)) watched.banners.push(text);
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
}

for (const fault of ["stall", "buffer"] satisfies StreamFault[]) {
  test(`stream that ${fault}s: the page goes on, says so, and gets large values`, async ({
    context,
    ioc,
    relay,
  }) => {
    const warnings: string[] = [];
    context.on("console", (message) => {
      if (message.type() === "warning") warnings.push(message.text());
    });
    await within(GOES_ON_WITHIN_MS, async () => {
      const proxy = await StreamProxy.start(relay.port, fault);
      const { close, url } = await servePage("demo", { relayPort: proxy.port });
      const page = await context.newPage();
      const demo = new DemoPage(page, url, ioc);
      await demo.open();
      await expect(demo.cells.first()).toBeVisible();
      await page.evaluate(watch, [COUNTER, WAVE, ELEMENTS] as const);
      const watched = async (): Promise<Watched> =>
        await page.evaluate(() => window.__watched as Watched);

      await expect.poll(() => proxy.streams).toBeGreaterThan(0);
      if (fault === "stall") {
        const why = "stream of large values: a value doesn't arrive";
        await expect
          .poll(async () => (await watched()).banners.join())
          .toMatch(new RegExp(`Relay lost since \\d\\d:\\d\\d:\\d\\d.*${why}`));
        expect(warnings.join()).toContain(`${why}; they come over the WebSocket`);
      }
      await expect(demo.connection).toHaveAttribute("data-connection", "open");
      const { large, small } = await watched();
      await expect.poll(async () => (await watched()).small - small).toBeGreaterThan(40);
      await expect.poll(async () => (await watched()).large - large).toBeGreaterThan(5);

      await expect(demo.banner).toHaveCount(0);
      await ioc.put("OP:MESSAGE", `after the ${fault}`);
      await expect(demo.value("OP:MESSAGE")).toHaveText(`after the ${fault}`);
      const { banners, longestMs, wrong } = await watched();
      expect(wrong).toEqual([]);
      if (fault === "buffer") expect(banners).toEqual([]);
      expect(await demo.stats()).toMatchObject({ gapsTotal: 0 });
      await page.close();
      await close();
      proxy.end();
      return longestMs;
    });
  });
}
