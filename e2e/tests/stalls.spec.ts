/** The page while an IOC doesn't answer, and when it withdraws read access. */

import { within } from "../../testbed/ts/within";
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
