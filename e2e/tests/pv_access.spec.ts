/** Does the page show by pvAccess what the IOC has, down to the last digit? */

import { writeFileSync } from "node:fs";

import { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

/** The page has a place for this name, and the IOC usually no record. */
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

test("the machine's status is the same as by Channel Access, and set points can be set", async ({
  demo,
  ioc,
}) => {
  await ioc.put("RF:VOLTAGE:SET", 1.5);
  // pvxs asks a name server that it didn't reach again after ten seconds.
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.50 MV", { timeout: 45_000 });
  await ioc.put("OP:MESSAGE", "[x] y");
  await expect(demo.value("OP:MESSAGE")).toHaveText("[x] y");
  await expect(demo.condition("VAC:VALVE")).not.toHaveText("");
});
