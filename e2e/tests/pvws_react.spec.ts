/** react-use-websocket, unmodified, with the relay in place of PVWS. */

import path from "node:path";

import { servePage } from "../fixtures/built_pages";
import { expect, test } from "../fixtures/test";
import { ROOT } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { SoftIoc } from "../../testbed/ts/soft_ioc";

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
