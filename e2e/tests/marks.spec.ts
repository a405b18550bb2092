/** Every value is marked while it is old, names itself, and keeps its alarm without colours. */

import type { Page } from "@playwright/test";

import { expect, test } from "../fixtures/test";

test("values in the ring are marked while the IOC is gone", async ({ demo, ioc, page }) => {
  const ring = page.getByLabel("Storage ring");
  const facts = ring.locator(".fact");
  const message = ring.locator(".operator-line");
  await expect(facts).toHaveCount(2);
  await expect(message.locator("svg")).toHaveCount(0);
  await ioc.kill();
  await expect(demo.troubles).toContainText("disconnected");
  for (const fact of await facts.all()) {
    await expect(fact).not.toHaveAttribute("data-severity");
    await expect(fact.locator("svg")).toBeVisible();
    await expect(fact).toContainText(/Disconnected · old since \d\d:\d\d:\d\d/);
  }
  await expect(message).toContainText(/Old since \d\d:\d\d:\d\d/);
  await expect(message.locator("svg")).toBeVisible();
});

test("a PV that isn't there has no rate", async ({ ioc, page, demo }) => {
  await page.getByRole("link", { name: "Health" }).click();
  const rateOf = (pv: string) => page.locator(`[data-rate-of="${ioc.prefix}:${pv}"] td`).first();
  await expect(rateOf("RING:CURRENT")).toHaveText(/^\d+\.\d$/);
  await expect(rateOf("NOT_THERE")).toHaveText("–");
  await ioc.kill();
  await expect(demo.troubles).toContainText("disconnected");
  await expect(rateOf("RING:CURRENT")).toHaveText("–");
});

test("a cell of the wall says which PV it is", async ({ demo, page }) => {
  await expect(demo.troubles).toBeVisible();
  await page.getByRole("link", { name: "Wall" }).click();
  const room = page.locator(".wall-room");
  const chosen = page.locator(".wall-cell");
  await expect(chosen).toContainText("Point at a cell");
  await room.hover({ position: { x: 62 + 20, y: 8 } });
  await expect(chosen).toContainText(/sim:\/\/sine\(6,amplitude=9,offset=1\)\s+-?\d+\.\d+/);
  await room.focus();
  await page.keyboard.press("ArrowLeft");
  await expect(chosen).toContainText("sim://sine(5,amplitude=9,offset=0)");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await expect(chosen).toContainText(/offset=[1-9]\d\)/);
});

/** How cells of each severity look: their colours and their borders. */
async function looksOf(page: Page): Promise<string[]> {
  return await page.evaluate(() =>
    ["NO_ALARM", "MINOR", "MAJOR", "INVALID", undefined].map((severity) => {
      const cell = document.querySelector<HTMLElement>(".cell");
      if (cell === null) throw new Error("no cell");
      const copy = cell.cloneNode(true) as HTMLElement;
      if (severity === undefined) copy.removeAttribute("data-severity");
      else copy.dataset.severity = severity;
      cell.parentElement?.append(copy);
      const { backgroundColor, borderTopColor, borderTopStyle, color } = getComputedStyle(copy);
      copy.remove();
      return [backgroundColor, color, borderTopColor, borderTopStyle].join(" ");
    }),
  );
}

test("forced colours keep each severity apart", async ({ demo, page }) => {
  await expect(demo.cells).toHaveCount(1000);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ forcedColors: "active", colorScheme });
    const looks = await looksOf(page);
    expect(new Set(looks).size, looks.join("\n")).toBe(looks.length);
  }
});
