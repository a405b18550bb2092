/** Clients of PVWS, unmodified, with the relay in its place: the page with the relay's client and with ORNL's, and react-use-websocket. */

import { readFileSync } from "node:fs";
import path from "node:path";

import type { Page } from "@playwright/test";

import { ROOT } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { SoftIoc } from "../../testbed/ts/soft_ioc";
import { servePage } from "../fixtures/built_pages";
import { expectAccessible, expectNoFaults, nameOf, screenOf, screensOf } from "../fixtures/screen";
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

const HEALTH = '{"type":"echo","body":"Hello, PVWS!"}';

test("components of react-use-websocket share a socket over restarts", async ({
  network,
  page,
  prefix,
}) => {
  const database = path.join(ROOT, "e2e/fixtures/pvws.db");
  const ioc = await SoftIoc.start(prefix, network, "pva", [database]);
  const port = await freePort();
  const relay = await Relay.start(network, [
    "--pvws",
    `--allow-origin=http://127.0.0.1:${String(port)}`,
    "--enable-put",
    `--allow-put=${prefix}:*`,
  ]);
  const served = await servePage("pvws_react", { port });

  const [set, mode, byPva] = [`${prefix}:SET`, `ca://${prefix}:MODE`, `pva://${prefix}:SET`];
  const sockets = { opened: 0, echoes: 0 };
  page.on("websocket", (socket) => {
    sockets.opened += 1;
    socket.on("framereceived", ({ payload }) => {
      if (payload === HEALTH) sockets.echoes += 1;
    });
  });
  const query = new URLSearchParams({ server: `127.0.0.1:${String(relay.port)}` });
  for (const name of [set, mode, byPva]) query.append("pv", name);
  await page.goto(`${served.url}?${query.toString()}`);
  const shows = async (name: string, ...cells: readonly string[]): Promise<void> => {
    const row = page.locator(`tr[aria-label="${name}"]`);
    await expect(row.locator("td"), name).toHaveText([...cells, "Write"]);
    await expect(row, "no update was without a value").toHaveAttribute("data-valueless", "0");
  };
  const open = page.locator('tr[data-open="true"]');
  const heartbeats = async (): Promise<void> => {
    const before = sockets.echoes;
    await expect.poll(() => sockets.echoes).toBeGreaterThan(before + 1);
  };

  await shows(set, "20.5", "mm", "NONE", "writable");
  await shows(mode, "on", "", "NONE", "writable");
  await shows(byPva, "20.5", "mm", "NONE", "writable");
  await heartbeats();
  expect(sockets.opened, "all components share one socket").toBe(1);

  await page.locator(`tr[aria-label="${set}"] button`).click();
  await shows(set, "4.5", "mm", "NONE", "writable");
  await shows(byPva, "4.5", "mm", "NONE", "writable");
  await ioc.put("SET", 90);
  await ioc.put("MODE", 2);
  await shows(set, "90", "mm", "MAJOR", "writable");
  await shows(mode, "broken", "", "MAJOR", "writable");

  await ioc.kill();
  await shows(set, "NaN", "mm", "INVALID", "writable");
  await shows(byPva, "NaN", "mm", "INVALID", "writable");
  await shows(mode, "broken", "", "INVALID", "writable");
  await ioc.restart();
  await shows(set, "20.5", "mm", "NONE", "writable");
  await shows(byPva, "20.5", "mm", "NONE", "writable");
  await shows(mode, "on", "", "NONE", "writable");
  await heartbeats();
  expect(sockets.opened, "the loss of an IOC closes no socket").toBe(1);

  await relay.kill();
  await expect(open).toHaveCount(0);
  await ioc.put("SET", -75);
  await ioc.put("SET.EGU", "um");
  await ioc.put("MODE", 0);
  await relay.restart();
  await expect(open).toHaveCount(3);
  await shows(set, "-75", "um", "MINOR", "writable");
  await shows(byPva, "-75", "um", "MINOR", "writable");
  await shows(mode, "off", "", "NONE", "writable");
  await heartbeats();

  await served.close();
  await relay.kill();
  await ioc.kill();
});
