/** A formula shows the state of its PV: value, alarm, disconnection and restart of the IOC. */

import { servePage } from "../fixtures/built_pages";
import { expect, test as base } from "../fixtures/test";

const test = base.extend<{ url: string }>({
  url: async ({ prefix, relay }, provide) => {
    const { close, url } = await servePage("formula", { relayPort: relay.port });
    await provide(`${url}?prefix=${prefix}`);
    await close();
  },
});

test("a formula shows its PV's alarm, disconnection and restart", async ({ ioc, page, url }) => {
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
});
