/** Changes of a record appear on the page as text for operators. */

import { DEADLINE_MS } from "../../testbed/ts/deadline";
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
