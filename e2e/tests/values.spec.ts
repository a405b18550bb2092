/**
 * Values of each kind appear on the page as the IOC has them: as text for operators, those that other clients show
 * wrongly too; large arrays complete and without a copy; and formulas with the state of their PVs.
 */

import { writeFileSync } from "node:fs";

import type { PvClient } from "pvwire";

import { DEADLINE_MS } from "../../testbed/ts/deadline";
import { servePage } from "../fixtures/built_pages";
import { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

test("a number comes with its precision and units", async ({ demo, ioc }) => {
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.40 MV");

  await ioc.put("RF:VOLTAGE:SET", 1.875);

  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.88 MV");
});

test("a number without units comes alone", async ({ demo, ioc }) => {
  await ioc.put("RING:TUNE.SCAN", "Passive");
  await ioc.put("RING:TUNE.CALC", "0.2345");
  await ioc.put("RING:TUNE.PROC", 1);

  await expect(demo.value("RING:TUNE")).toHaveText("0.2345");
});

test("a very small number is shown with an exponent", async ({ demo, ioc }) => {
  await ioc.hold("VAC:PRESSURE");
  await ioc.put("VAC:PRESSURE", 3.25e-9);

  await expect(demo.value("VAC:PRESSURE")).toHaveText("3.25e-9 mbar");
});

test("an integer, an enum and a string come as they are", async ({ demo, ioc }) => {
  await ioc.hold("MAG:DIPOLE:FLOW");
  await ioc.put("MAG:DIPOLE:FLOW", 123);
  await ioc.hold("FE:SHUTTER");
  await ioc.put("FE:SHUTTER", "Closed");
  await ioc.hold("RING:MODE");
  await ioc.put("RING:MODE", "Top-up");
  await ioc.put("OP:MESSAGE", "Injection at 14:00");

  await expect(demo.value("MAG:DIPOLE:FLOW")).toHaveText("123 l/min");
  await expect(demo.value("FE:SHUTTER")).toHaveText("Closed");
  await expect(demo.value("RING:MODE")).toHaveText("Top-up");
  await expect(demo.value("OP:MESSAGE")).toHaveText("Injection at 14:00");

  await ioc.put("FE:SHUTTER", "Open");
  await expect(demo.value("FE:SHUTTER")).toHaveText("Open");
});

test("units that are changed while connected change on the page", async ({ demo, ioc }) => {
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.40 MV");

  await ioc.put("RF:VOLTAGE:SET.EGU", "kV");
  await ioc.put("RF:VOLTAGE:SET.PREC", 3);

  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.400 kV");
});

test("the time stamp is the IOC's, to the nanosecond", async ({ demo, ioc }) => {
  await ioc.put("RF:VOLTAGE:SET", 1.5);
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.50 MV");

  const shown = demo.readback("RF:VOLTAGE:SET").locator("time");
  const iso = (await shown.getAttribute("datetime")) ?? "";

  expect(iso).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
  expect(Math.abs(Date.now() - Date.parse(iso))).toBeLessThan(DEADLINE_MS);
  await expect(shown).toHaveText(/^\d\d:\d\d:\d\d\.\d{3}$/);
});

test("what may only be read is marked so", async ({ demo }) => {
  const access = (pv: string) => demo.readback(pv).locator("[data-access]");
  await expect(access("RING:CURRENT")).toHaveAttribute("data-access", "read-only");
  await expect(access("RF:VOLTAGE:SET")).toHaveAttribute("data-access", "write");
});

test("waves move by themselves", async ({ demo }) => {
  const before = await demo.value("RING:CURRENT").innerText();
  await expect(demo.value("RING:CURRENT")).not.toHaveText(before);
});

/** The page shows this name, but the IOC usually has no such record. */
const PV = "NOT_THERE";

/** That record, as a database. */
const special = (type: string, fields: string): string =>
  `record(${type}, "$(P):${PV}") { ${fields} }\n`;

test.describe("infinity", () => {
  test.use({ moreRecords: special("ao", 'field(VAL, "1") field(PREC, "1") field(EGU, "V")') });

  test("infinities and NaN are told apart", async ({ demo, ioc }) => {
    await expect(demo.value(PV)).toHaveText("1.0 V");

    for (const [put, shown] of [
      ["Inf", "inf V"],
      ["-Inf", "-inf V"],
      ["NaN", "nan V"],
      ["-2.5", "-2.5 V"],
    ] as const) {
      await ioc.put(PV, put);
      await expect(demo.value(PV)).toHaveText(shown);
    }
  });
});

test.describe("an array", () => {
  test.use({ moreRecords: special("waveform", 'field(FTVL, "STRING") field(NELM, "3")') });

  test("an array of strings shows each string, or none when empty", async ({ demo, ioc }) => {
    await expect(demo.value(PV)).toHaveText("[]");

    for (const [put, shown] of [
      ["['a, b', '', '[c]']", '["a, b", "", "[c]"]'],
      ["['alone']", '["alone"]'],
      ["[]", "[]"],
    ] as const) {
      await ioc.put(PV, put);
      await expect(demo.value(PV)).toHaveText(shown);
    }
  });
});

test.describe("a long string", () => {
  test.use({ moreRecords: special("lso", 'field(SIZV, "3001") field(MPST, "Always")') });

  test("long strings are complete by name and as bytes", async ({ demo, ioc }) => {
    await expect(demo.readback(PV)).toHaveAttribute("data-state", "connected");

    for (const length of [39, 40, 41, 3000]) {
      const text = "abcdefghij".repeat(300).slice(0, length);
      await ioc.put(PV, text);
      await expect(demo.value(PV)).toHaveText(text);
      await expect.poll(() => demo.bytesAsText(`${PV}.VAL$`)).toBe(text);
    }
  });
});

test("a record's description is shown and follows a restart", async ({ demo, ioc }, testInfo) => {
  const label = demo.setPoint("RF:VOLTAGE:SET").row.locator(".pvwire-set-point-label span").first();
  await expect(label).toHaveAttribute("title", "RF voltage set point");

  const database = testInfo.outputPath("described.db");
  writeFileSync(database, 'record("*", "$(P):RF:VOLTAGE:SET") { field(DESC, "What the RF has") }');
  await ioc.restart({ alsoLoad: [database] });
  await expect(label).toHaveAttribute("title", "What the RF has", { timeout: 45_000 });
});

test("write access that is withdrawn and granted shows at once", async ({ demo, ioc }) => {
  const access = demo.readback("RF:VOLTAGE:SET").locator("[data-access]");
  await expect(access).toHaveAttribute("data-access", "write");

  await ioc.put("RF:VOLTAGE:SET.ASG", "DEFAULT");
  await expect(access).toHaveAttribute("data-access", "read-only");
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.40 MV");

  await ioc.put("RF:VOLTAGE:SET.ASG", "OPERATOR");
  await expect(access).toHaveAttribute("data-access", "write");
});

test("a page that comes late shows a PV that never changes", async ({
  demo,
  ioc,
  pageUrl,
  context,
}) => {
  await ioc.put("OP:MESSAGE", "said once");
  await expect(demo.value("OP:MESSAGE")).toHaveText("said once");

  const late = new DemoPage(await context.newPage(), pageUrl, ioc);
  await late.open();

  await expect(late.value("OP:MESSAGE")).toHaveText("said once");
  await expect(late.readback("OP:MESSAGE").locator("time")).toHaveAttribute(
    "datetime",
    (await demo.readback("OP:MESSAGE").locator("time").getAttribute("datetime")) ?? "",
  );
});

test("unknown PV: connecting, not found, connected once it exists", async ({
  ioc,
  page,
  pageUrl,
}, testInfo) => {
  const pv = "NOT_THERE";
  const demo = new DemoPage(page, pageUrl, ioc);
  // A busy machine may need longer to load the page than the relay searches.
  const seen = await demo.notesStatesOf(pv);
  await demo.open();
  await expect(demo.readback(pv)).toHaveAttribute("data-state", "notFound");
  await expect(demo.condition(pv)).toHaveText("Not found · still searching");
  expect(await seen()).toEqual([
    "connecting: Connecting…",
    "notFound: Not found · still searching",
  ]);
  await expect(demo.value(pv)).toHaveText("–");
  await expect(demo.readback(pv)).not.toHaveAttribute("data-severity");
  // The other PVs are not affected.
  await expect(demo.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-state", "connected");

  const database = testInfo.outputPath("there.db");
  writeFileSync(
    database,
    'record(ai, "$(P):NOT_THERE") { field(VAL, "4.5") field(PREC, "1") field(PINI, "YES") }',
  );
  await ioc.restart({ alsoLoad: [database] });

  await expect(demo.readback(pv)).toHaveAttribute("data-state", "connected", { timeout: 45_000 });
  await expect(demo.value(pv)).toHaveText("4.5");
});

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

const onFormulas = test.extend<{ url: string }>({
  url: async ({ prefix, relay }, provide) => {
    const { close, url } = await servePage("formula", { relayPort: relay.port });
    await provide(`${url}?prefix=${prefix}`);
    await close();
  },
});

onFormulas(
  "a formula shows its PV's alarm, disconnection and restart",
  async ({ ioc, page, url }) => {
    await ioc.put("RF:VOLTAGE:SET", 1.75);
    await page.goto(url);
    const shown = page.locator("#double");
    await expect(shown).toHaveText("3.5");
    await expect(shown).toHaveAttribute("data-state", "connected");
    await expect(shown).toHaveAttribute("data-severity", "NO_ALARM");
    await expect(page.locator("#wrong")).toHaveText("character 5: unknown function foo");

    await ioc.put("RF:VOLTAGE:SET", 2.75);
    await expect(shown).toHaveText("5.5");
    await expect(shown).toHaveAttribute("data-severity", "MAJOR");

    const connectedSince = await shown.getAttribute("data-since");
    await ioc.kill();
    await expect(shown).toHaveAttribute("data-state", "disconnected");
    expect(await shown.getAttribute("data-since")).not.toBe(connectedSince);
    await expect(shown).toHaveText("5.5");

    await ioc.restart();
    await expect(shown).toHaveAttribute("data-state", "connected", { timeout: 30_000 });
    await ioc.put("RF:VOLTAGE:SET", 1.5);
    await expect(shown).toHaveText("3");
    await expect(shown).toHaveAttribute("data-severity", "NO_ALARM");
  },
);
