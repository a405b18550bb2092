/** Values that other clients show wrongly appear on the page as the IOC has them, and a PV that does not exist at first once it appears. */

import { writeFileSync } from "node:fs";

import { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

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
