/** A formula shows the state of its PV: value, alarm, disconnection and restart of the IOC. */

import path from "node:path";

import { createServer } from "vite";

import { ROOT } from "../../testbed/ts/paths";
import { expect, test as base } from "../fixtures/test";

const test = base.extend<{ url: string }>({
  url: async ({ prefix, relay }, provide) => {
    const page = await createServer({
      root: path.join(ROOT, "e2e/pages/formula"),
      cacheDir: path.join(ROOT, ".local/e2e/vite-formula"),
      configFile: false,
      logLevel: "silent",
      server: {
        host: "127.0.0.1",
        port: 0,
        hmr: false,
        fs: { allow: [ROOT] },
        proxy: { "/ws": { target: `http://127.0.0.1:${String(relay.port)}`, ws: true } },
      },
      optimizeDeps: {
        exclude: ["pvwire"],
        include: ["react", "react-dom/client", "react/jsx-runtime", "react/jsx-dev-runtime"],
      },
    });
    await page.listen();
    await provide(`${page.resolvedUrls?.local[0] ?? ""}?prefix=${prefix}`);
    await page.close();
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
