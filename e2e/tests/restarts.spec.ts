/** The page while the relay or an IOC is dead, and after its restart. */

import { within } from "../../testbed/ts/within";
import { expect, test } from "../fixtures/test";

const ALL_READBACKS = 18;
const NOT_THERE = 1;
const CELLS = 1000;

test.describe("with counting PVs", () => {
  test.use({ counting: true });

  test("relay killed: the page says so; restarted: right, no reload", async ({
    demo,
    ioc,
    relay,
  }) => {
    await ioc.put("RF:VOLTAGE:SET", 2.2);
    await expect(demo.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-severity", "MINOR");
    await expect(demo.inState("connected")).toHaveCount(ALL_READBACKS - NOT_THERE + CELLS);
    await demo.page.evaluate(() => {
      document.body.dataset.sameDocument = "yes";
    });

    let attempts = 0;
    const tookMs = await within(1000, async () => {
      attempts += 1;
      if (attempts > 1) {
        await relay.restart();
        await expect(demo.inState("connected")).toHaveCount(ALL_READBACKS - NOT_THERE + CELLS);
      }
      const lost = await demo.whenReaches("RF:VOLTAGE:SET", "relayLost");
      const killedAtMs = Date.now();
      await relay.kill();
      return (await lost()) - killedAtMs;
    });
    test.info().annotations.push({ type: "relay lost after", description: `${String(tookMs)} ms` });

    await expect(demo.connection).toHaveAttribute("data-connection", "lost");
    await expect(demo.connection).toContainText("Relay lost");
    await expect(demo.banner).toContainText("All values below are old");
    await expect(demo.banner).toContainText(/Attempt \d+ in \d+\.\d s|Trying now/);
    await expect(demo.page.locator('[data-rate="updates"] dd')).toHaveText("– /s");
    await expect(demo.inState("relayLost")).toHaveCount(ALL_READBACKS + CELLS);
    await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("2.20 MV");
    await expect(demo.condition("RF:VOLTAGE:SET")).toHaveText(
      /^Relay lost · old since \d\d:\d\d:\d\d$/,
    );
    await expect(demo.readback("RF:VOLTAGE:SET")).not.toHaveAttribute("data-severity");

    // Changes in the meantime are shown as soon as the relay is back.
    await ioc.put("RF:VOLTAGE:SET", 2.7);
    await ioc.put("OP:MESSAGE", "while the relay was away");
    await relay.restart();

    await expect(demo.connection).toHaveAttribute("data-connection", "open");
    await expect(demo.banner).toHaveCount(0);
    await expect(demo.inState("connected")).toHaveCount(ALL_READBACKS - NOT_THERE + CELLS);
    await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("2.70 MV");
    await expect(demo.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-severity", "MAJOR");
    await expect(demo.value("OP:MESSAGE")).toHaveText("while the relay was away");
    await expect(demo.page.locator("body")).toHaveAttribute("data-same-document", "yes");
  });

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
    test
      .info()
      .annotations.push({ type: "disconnected after", description: `${String(tookMs)} ms` });

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
});

test("relay back after a long time: Try now connects at once", async ({ demo, relay }) => {
  await expect(demo.connection).toHaveAttribute("data-connection", "open");
  await within(1000, async () => {
    await relay.kill();
    // By now the next attempt is seconds away.
    await expect(demo.banner).toContainText(/Attempt (?:[6-9]|\d\d) in [2-9]\.\d s/, {
      timeout: 60_000,
    });
    await relay.restart();
    const clickedMs = Date.now();
    try {
      await demo.banner.getByRole("button", { name: "Try now" }).click({ timeout: 1000 });
    } catch {
      // The next attempt came before the click, so this one tells nothing of the button.
      await expect(demo.connection).toHaveAttribute("data-connection", "open");
      return Infinity;
    }
    await expect(demo.connection).toHaveAttribute("data-connection", "open");
    return Date.now() - clickedMs;
  });
});
