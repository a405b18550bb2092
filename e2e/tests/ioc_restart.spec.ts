/** The page while an IOC is dead, and after its restart. */

import { within } from "../../testbed/ts/within";
import { expect, test } from "../fixtures/test";

const ALL_READBACKS = 18;
const NOT_THERE = 1;
const CELLS = 1000;

test.use({ counting: true });

test("IOC killed: disconnected within 1 s; restarted: right again", async ({ demo, ioc }) => {
  let attempts = 0;
  const tookMs = await within(1000, async () => {
    attempts += 1;
    if (attempts > 1) await ioc.restart();
    await ioc.put("RF:VOLTAGE:SET", 2.2);
    await ioc.put("OP:MESSAGE", "before the crash");
    await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("2.20 MV");
    await expect(demo.value("OP:MESSAGE")).toHaveText("before the crash");
    await expect(demo.inState("connected")).toHaveCount(ALL_READBACKS - NOT_THERE + CELLS);
    await expect(demo.troubles).toContainText("1 not found");
    await expect(demo.troubles).not.toContainText("disconnected");

    const disconnected = await demo.whenReaches("RF:VOLTAGE:SET", "disconnected");
    const killedAtMs = Date.now();
    await ioc.kill();
    return (await disconnected()) - killedAtMs;
  });
  test.info().annotations.push({ type: "disconnected after", description: `${String(tookMs)} ms` });

  // The last value stays and is marked as outdated; its alarm is no longer shown.
  await expect(demo.inState("disconnected")).toHaveCount(ALL_READBACKS - NOT_THERE + CELLS);
  await expect(demo.readback("RF:VOLTAGE:SET")).not.toHaveAttribute("data-severity");
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("2.20 MV");
  await expect(demo.condition("RF:VOLTAGE:SET")).toHaveText(
    /^Disconnected · old since \d\d:\d\d:\d\d$/,
  );
  await expect(demo.frame("RF:VOLTAGE:SET")).toHaveCSS("border-top-style", "dashed");
  // The relay is connected, but the header must show the disconnected PVs, including set points.
  await expect(demo.connection).toHaveAttribute("data-connection", "open");
  await expect(demo.connection).toHaveAttribute("data-well", "false");
  await expect(demo.troubles).toContainText("1,024 disconnected");
  await expect(demo.troubles).toContainText("1 not found");
  await expect(demo.troubles).not.toContainText("minor");

  await ioc.restart();

  await expect(demo.inState("connected")).toHaveCount(ALL_READBACKS - NOT_THERE + CELLS, {
    timeout: 30_000,
  });
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText(`${await ioc.get("RF:VOLTAGE:SET")}0 MV`);
  await expect(demo.value("OP:MESSAGE")).toHaveText(await ioc.get("OP:MESSAGE"));
  await expect(demo.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-severity", "NO_ALARM");
  await expect(demo.frame("RF:VOLTAGE:SET")).toHaveCSS("border-top-style", "solid");

  // Updates continue.
  await ioc.put("RF:VOLTAGE:SET", 2.7);
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("2.70 MV");
  await expect(demo.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-severity", "MAJOR");
});
