/** A camera and a table of a real pvAccess server. */

import path from "node:path";

import type { Locator } from "@playwright/test";
import { createServer } from "vite";

import { expectAccessible } from "../fixtures/accessible";
import { Child } from "../../testbed/ts/child";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { expect, test as base } from "../fixtures/test";

const test = base.extend<{ server: Child; url: string }>({
  server: async ({ network, prefix }, provide) => {
    const server = Child.start({
      what: "the pvAccess server",
      command: PYTHON,
      args: ["-u", path.join(ROOT, "e2e/fixtures/structures.py"), prefix],
      env: network.env,
    });
    await provide(server);
    await server.kill();
  },

  url: async ({ prefix, relay, server }, provide, { parallelIndex }) => {
    await server.waitForOutput(/serving/);
    const page = await createServer({
      root: path.join(ROOT, "e2e/pages/structures"),
      // Two workers must not write to one cache.
      cacheDir: path.join(ROOT, `.local/e2e/vite-structures-${String(parallelIndex)}`),
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

/** How bright the first pixel is, 0 to 255. */
async function brightness(canvas: Locator): Promise<number> {
  return await canvas.evaluate((element) => {
    const copy = document.createElement("canvas");
    copy.width = copy.height = 1;
    const context = copy.getContext("2d");
    context?.drawImage(element as HTMLCanvasElement, 0, 0);
    return context?.getImageData(0, 0, 1, 1).data[0] ?? NaN;
  });
}

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    test("camera frames and table rows, until their server is gone", async ({
      page,
      prefix,
      server,
      url,
    }) => {
      await page.goto(url);
      const camera = page.getByRole("img", { name: "Camera: image of 64 × 48 pixels" });
      await expect(camera).toBeVisible({ timeout: 30_000 });
      const seen = new Set<number>();
      await expect
        .poll(async () => seen.add(await brightness(camera)).size, { timeout: 30_000 })
        .toBeGreaterThan(5);
      const table = page.getByRole("table");
      await expect(table.getByRole("columnheader")).toHaveText(["magnet", "current", "turns"]);
      await expect(table.getByRole("cell")).toHaveText([
        ...["Q1", "1.25", "1"],
        ...["Q2", "-0.5", "9007199254740993"],
      ]);
      server.writeLine("table");
      await expect(table.getByRole("cell", { name: "Q3" })).toBeVisible();
      await expectAccessible(page);

      await server.kill();
      for (const pv of ["CAMERA", "TABLE"]) {
        const widget = page.locator(`[data-pv="pva://${prefix}:${pv}"]`);
        await expect(widget).toHaveAttribute("data-state", "disconnected", { timeout: 30_000 });
        await expect(widget).toContainText("Disconnected · old since");
      }
      await expect(table.getByRole("cell", { name: "Q3" })).toBeVisible();
      await expectAccessible(page);
    });
  });
}
