/** The page shows by pvAccess what the IOC has, to the last digit. */

import { writeFileSync } from "node:fs";

import { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

/** The page shows this name, but the IOC usually has no such record. */
const PV = "NOT_THERE";

test.use({ source: "pva" });

test("a 64-bit integer has all its digits", async ({ ioc, page, pageUrl }, testInfo) => {
  const database = testInfo.outputPath("large.db");
  const fields = 'field(VAL, "9007199254740993") field(PINI, "YES") field(EGU, "turns")';
  writeFileSync(database, `record(int64out, "$(P):${PV}") { ${fields} }`);
  await ioc.restart({ alsoLoad: [database] });
  const demo = new DemoPage(page, pageUrl, ioc);
  await demo.open();
  await expect(demo.value(PV)).toHaveText("9007199254740993 turns", { timeout: 45_000 });

  for (const integer of ["-9223372036854775808", "12", "9007199254740995"]) {
    await ioc.put(PV, integer);
    await expect(demo.value(PV)).toHaveText(`${integer} turns`);
  }
});

test("fields of structures are PVs; a wrong one lists those known", async ({
  ioc,
  page,
  pageUrl,
}, testInfo) => {
  const database = testInfo.outputPath("group.db");
  const group = `"$(P):GROUP": { "+id": "site:gap:1.0",
    "plain": { "+channel": "VAL", "+type": "plain" }, "gap": { "+channel": "VAL" } }`;
  writeFileSync(
    database,
    `record(ai, "$(P):GAP") {
       field(VAL, "90.1") field(PREC, "3") field(EGU, "mm") field(HIHI, "80") field(HHSV, "MAJOR")
       field(PINI, "YES") info(Q:group, { ${group} })
     }`,
  );
  await ioc.restart({ alsoLoad: [database] });
  const demo = new DemoPage(page, pageUrl, ioc);
  await demo.open();
  const shown = async (path: string): Promise<unknown> =>
    await page.evaluate(async (name) => {
      const client = window.__pvwireDemo?.client;
      if (client === undefined) throw new Error("the page has no client yet");
      const selection = `{ value { string(units: true) } time { seconds } status { severity } }`;
      const [result] = await client.get([name], { selection, timeoutMs: 45_000 });
      if (result === undefined || result.ok) return result?.data;
      return { code: result.error.code, message: result.error.message };
    }, `pva://${ioc.prefix}:GROUP${path}`);

  await expect(demo.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-state", "connected", {
    timeout: 45_000,
  });
  expect(await shown("/plain")).toEqual({
    value: { string: "90.1" },
    time: null,
    status: { severity: null },
  });
  expect(await shown("/gap")).toMatchObject({
    value: { string: "90.100 mm" },
    status: { severity: "MAJOR" },
  });
  expect(await shown("/gap/alarm/severity")).toMatchObject({ value: { string: "2" } });
  expect(await shown("/gpa")).toEqual({
    code: "NO_SUCH_FIELD",
    message: 'the structure has no field "gpa"; it has: record, gap, plain',
  });
});

test("status and set points are the same as by Channel Access", async ({ demo, ioc }) => {
  await ioc.put("RF:VOLTAGE:SET", 1.5);
  // pvxs tries an unreachable name server again after ten seconds.
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.50 MV", { timeout: 45_000 });
  await ioc.put("OP:MESSAGE", "[x] y");
  await expect(demo.value("OP:MESSAGE")).toHaveText("[x] y");
  await expect(demo.condition("VAC:VALVE")).not.toHaveText("");
});
