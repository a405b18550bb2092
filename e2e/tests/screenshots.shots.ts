/** Writes the pictures of docs/screenshots (`make screenshots`). */

import path from "node:path";

import { ROOT } from "../../testbed/ts/paths";
import { expect, test } from "../fixtures/test";
import type { DemoPage } from "../fixtures/demo_page";

const FOLDER = path.join(ROOT, "docs/screenshots");
const CELLS = 1000;

// The dark appearance is compared with e2e/pictures.
test.use({ colorScheme: "light" });

test("live", async ({ demo }) => {
  await allIsShown(demo);
  await save(demo, "demo-light.png");
});

test("the other pages", async ({ demo }) => {
  for (const [page, ready] of [
    ["Beamline", ".pvwire-image canvas"],
    ["Wall", ".wall canvas"],
    ["Console", ".graphiql-container .CodeMirror"],
    ["Health", ".health"],
  ] as const) {
    await demo.page.getByRole("link", { name: page }).click();
    await expect(demo.page.locator(ready).first()).toBeVisible();
    if (page === "Console") {
      await demo.page.getByRole("button", { name: /^Execute query/ }).click();
      await expect(demo.page.locator(".result-window")).toContainText("string");
    }
    // Curves and bars need some data first.
    const { updatesTotal } = await demo.stats();
    await expect
      .poll(async () => (await demo.stats()).updatesTotal, { timeout: 30_000 })
      .toBeGreaterThan(updatesTotal + 300);
    if (page === "Health") {
      await expect(demo.page.getByLabel("Latency")).toContainText(/\d{3} updates/, {
        timeout: 30_000,
      });
      const relaySays = demo.page.getByLabel("Relay", { exact: true });
      await expect(relaySays).toContainText(/sent\s*half/, { timeout: 30_000 });
    }
    await save(demo, `${page.toLowerCase()}-light.png`);
  }
  await demo.page.setViewportSize({ width: 390, height: 844 });
  await demo.page.getByRole("link", { name: "Beamline" }).click();
  await expect(demo.page.locator(".pvwire-image canvas")).toBeVisible();
  await save(demo, "beamline-phone-light.png");
});

test("relay lost", async ({ demo, relay }) => {
  await allIsShown(demo);
  await relay.kill();
  await expect(demo.banner).toBeVisible();
  await save(demo, "demo-relay-lost-light.png");
});

test("on a phone", async ({ demo }) => {
  await demo.page.setViewportSize({ width: 390, height: 844 });
  await allIsShown(demo);
  await save(demo, "demo-phone-light.png");
});

test("IOC gone", async ({ demo, ioc }) => {
  await allIsShown(demo);
  await ioc.kill();
  await expect(demo.page.locator('.cell[data-state="disconnected"]')).toHaveCount(CELLS);
  await save(demo, "demo-ioc-gone-light.png");
});

/** Every kind of row: alarms of each severity, a name that was not found, measured rates. */
async function allIsShown(demo: DemoPage): Promise<void> {
  await expect(demo.page.locator('.cell[data-state="connected"]')).toHaveCount(CELLS);
  await expect(demo.readback("NOT_THERE")).toHaveAttribute("data-state", "notFound");
  await expect(demo.page.locator('[data-rate="round-trip"] dd')).not.toContainText("–");
  await expect(demo.page.locator('.pvwire-readback[data-severity="INVALID"]')).not.toHaveCount(0, {
    timeout: 60_000,
  });
}

async function save(demo: DemoPage, file: string): Promise<void> {
  await demo.page.screenshot({ path: path.join(FOLDER, file) });
}
