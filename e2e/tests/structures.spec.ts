/** A camera and a table of a real pvAccess server. */

import path from "node:path";

import type { Locator } from "@playwright/test";

import { expectAccessible } from "../fixtures/accessible";
import { Child } from "../../testbed/ts/child";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { servePage } from "../fixtures/built_pages";
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

  beforeRelay: async ({ server }, provide) => {
    await provide(() => server.waitForOutput(/serving/));
  },

  url: async ({ prefix, relay }, provide) => {
    const { close, url } = await servePage("structures", { relayPort: relay.port });
    await provide(`${url}?prefix=${prefix}`);
    await close();
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
