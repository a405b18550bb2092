/**
 * A plot is one line from an archiver's samples through what the relay has kept to live values.
 *
 * Topology: IOC, the HTTP face of an archiver with years of samples, relay, and a plain page on another port.
 */

import path from "node:path";

import type { Page } from "@playwright/test";

import { test as base } from "../fixtures/elements_page";
import { expect } from "../fixtures/test";
import { Child } from "../../testbed/ts/child";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";

/** The archiver's samples are numbers up to 999, one every ten seconds. */
const test = base.extend<{ archiver: { readonly port: number } }>({
  // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
  archiver: async ({}, provide) => {
    const port = await freePort();
    const script = path.join(ROOT, "testbed/python/archiver.py");
    const child = Child.start({
      what: "archiver",
      command: PYTHON,
      args: [script, String(port), "10"],
      env: {},
    });
    await child.waitForOutput(/running/);
    await provide({ port });
    await child.kill();
  },

  relay: async ({ archiver, network, prefix, sitePort }, provide) => {
    const relay = await Relay.start(network, [
      `--allow-origin=http://127.0.0.1:${String(sitePort)}`,
      `--archiver=${prefix}:*=http://127.0.0.1:${String(archiver.port)}/retrieval`,
      `--history=${prefix}:*=10m`,
    ]);
    await provide(relay);
    await relay.kill();
  },
});

/** The share of columns that have a curve, in each tenth of the width of a plot. */
async function curveIn(page: Page, label: string): Promise<number[]> {
  return page.locator(`[label="${label}"] canvas`).evaluate((canvas: HTMLCanvasElement) => {
    const { height, width } = canvas;
    const { data } = canvas.getContext("2d")?.getImageData(0, 0, width, height) ?? { data: [] };
    const has = Array.from({ length: width }, (_, x) => {
      for (let y = 0; y < height * 0.8; y += 1) {
        const at = 4 * (y * width + x);
        const [red = 0, green = 0, blue = 0, alpha = 0] = data.slice(at, at + 4);
        // The curve is coloured, axes and grid are grey.
        if (alpha > 128 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) return 1;
      }
      return 0;
    });
    return Array.from({ length: 10 }, (_, tenth) => {
      const columns = has.slice((tenth * width) / 10, ((tenth + 1) * width) / 10);
      return columns.reduce<number>((sum, one) => sum + one, 0) / columns.length;
    });
  });
}

test("archiver: a plot of an hour opens with the hour, although the page and the relay just started", async ({
  elements,
  ioc,
  page,
}, testInfo) => {
  await elements.add("pv-plot", {
    name: `${ioc.prefix}:RF:VOLTAGE:SET`,
    label: "The last hour",
    "window-seconds": "3600",
  });
  await expect(elements.value("The last hour")).toHaveText("1.40 MV");
  await expect
    .poll(async () => Math.min(...(await curveIn(page, "The last hour")).slice(2, 9)))
    .toBe(1);
  await page.screenshot({ path: testInfo.outputPath("archiver.png") });
  const archive = page.evaluate(
    () =>
      performance.getEntriesByType("resource").filter(({ name }) => name.includes("archive"))
        .length,
  );
  expect(await archive, "the decoder and its module").toBe(2);
});
