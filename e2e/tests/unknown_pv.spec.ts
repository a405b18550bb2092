/** A PV that does not exist at first and appears later. */

import { writeFileSync } from "node:fs";

import { DemoPage } from "../fixtures/demo_page";
import { expect, test } from "../fixtures/test";

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
