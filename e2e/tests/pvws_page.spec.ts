/** The relay's page for clients of PVWS, with the relay's client and with ORNL's. */

import { readFileSync } from "node:fs";
import path from "node:path";

import type { Page } from "@playwright/test";

import { ROOT } from "../../testbed/ts/paths";
import { Relay } from "../../testbed/ts/relay";
import { expectAccessible } from "../fixtures/accessible";
import { expectNoFaults, nameOf, screenOf, screensOf } from "../fixtures/screen";
import { expect, test as base } from "../fixtures/test";

/** ORNL's files, which the set-up installs. */
const ORNL = path.join(ROOT, ".local/pvws-clients/nova/epics/assets/epics");

const test = base.extend<{ door: Relay }>({
  door: async ({ ioc, network }, provide) => {
    const relay = await Relay.start(network, [
      "--pvws",
      "--enable-put",
      `--allow-put=${ioc.prefix}:*`,
    ]);
    await provide(relay);
    await relay.kill();
  },
});

/** Replaces the relay's client by ORNL's. */
async function useOrnls(page: Page): Promise<void> {
  // ORNL's base64.js expects it.
  await page.addInitScript("globalThis.exports = {}");
  for (const file of ["pvws.js", "base64.js"]) {
    const body = readFileSync(path.join(ORNL, file), "utf8");
    await page.route(`**/js/${file}`, (route) =>
      route.fulfill({ body, contentType: "text/javascript" }),
    );
  }
}

for (const client of ["the relay's", "ORNL's"]) {
  test(`PVWS page with ${client} client: shows values and writes`, async ({ page, door, ioc }) => {
    const refused: string[] = [];
    page.on("console", (message) => {
      if (message.text().includes("Content Security Policy")) refused.push(message.text());
    });
    if (client === "ORNL's") await useOrnls(page);
    const name = `${ioc.prefix}:RF:VOLTAGE:SET`;
    await ioc.put("RF:VOLTAGE:SET", 1.25);
    await page.goto(`http://127.0.0.1:${String(door.port)}/pvws/`);
    await expect(page.getByRole("status")).toContainText("Connected");
    await page.getByLabel("PV name").fill(name);
    await page.getByRole("button", { name: "Subscribe" }).click();
    const row = page.getByRole("row").filter({ hasText: name });
    await expect(row.locator(".value")).toContainText("1.25");
    await expect(row.locator(".severity")).toHaveText("NONE");

    await page.getByLabel(`New value of ${name}`).fill("1.5");
    await row.getByRole("button", { name: "Write" }).click();
    await expect(row.locator(".value")).toContainText("1.5");
    expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.5");

    await ioc.kill();
    await expect(row.locator(".severity")).toHaveText("INVALID");
    await expect(row.locator(".value")).toContainText("NaN");
    await row.getByRole("button", { name: `Remove ${name}` }).click();
    await expect(page.getByText("No PV is subscribed.")).toBeVisible();
    await door.kill();
    await expect(page.getByRole("status")).toContainText("Not connected");
    expect(refused).toEqual([]);
  });
}

test("PVWS page is accessible and fits every screen", async ({ page, door, ioc }) => {
  const names = ["RF:VOLTAGE:SET", "RING:CURRENT", "NOT_THERE"].map(
    (record) => `pv=${encodeURIComponent(`ca://${ioc.prefix}:${record}`)}`,
  );
  await page.goto(`http://127.0.0.1:${String(door.port)}/pvws/?${names.join("&")}`);
  const row = page.getByRole("row").filter({ hasText: "RF:VOLTAGE:SET" });
  await expect(row.locator(".severity")).not.toBeEmpty();
  await expect(page.locator("#about")).toContainText("pvwire-relay");
  const setScreen = await screenOf(page);
  for (const screen of screensOf(1)) {
    await setScreen(screen);
    await expectNoFaults(page, nameOf(screen));
    await expectAccessible(page);
  }
});
