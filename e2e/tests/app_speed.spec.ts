/** How soon the app shows a value. */

import { within } from "../../testbed/ts/within";
import { AppPage, expect, test } from "../fixtures/app_page";

/** From the navigation until the value is painted, on a machine that does nothing else. */
const MOST_FIRST_VALUE_MS = 1000;

test("the first value is there within a second after navigation, in a browser that has nothing of the app", async ({
  app,
  browser,
  ioc,
  prefix,
}) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 300);
  const warm = `#/pv/${prefix}:RING:CURRENT`;
  // The relay has its PV, and the IOC's connection.
  await app.open(warm);
  await expect(app.value).toHaveText("300.00 mA");
  const measured: string[] = [];
  for (const [what, hash, text] of [
    ["known to the relay", warm, /^300\.00 mA$/],
    ["new to the relay", `#/pv/${prefix}:RF:VOLTAGE:SET`, /^\d\.\d+ MV$/],
  ] as const) {
    const tookMs = await within(MOST_FIRST_VALUE_MS, async () => {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.addInitScript(tellFirstValue);
      await new AppPage(page, app.url).open(hash);
      const value = page.locator('.pv-now [data-part="value"]');
      await expect(value).toHaveText(text);
      await expect(page.locator("html[data-first-value-ms]")).toBeAttached();
      const ms = await page.locator("html").getAttribute("data-first-value-ms");
      await context.close();
      return Number(ms);
    });
    measured.push(`${what}: ${tookMs.toFixed(0)} ms`);
  }
  console.log(`first value after navigation, ${measured.join(", ")}`);
});

/** Notes the time from the navigation to the frame after the one with the first value. Runs in the page. */
function tellFirstValue(): void {
  const isThere = (): boolean =>
    /^\d/.test(document.querySelector('.pv-now [data-part="value"]')?.textContent ?? "");
  const look = (): void => {
    if (!isThere()) requestAnimationFrame(look);
    else {
      requestAnimationFrame(() => {
        document.documentElement.dataset.firstValueMs = performance.now().toFixed(1);
      });
    }
  };
  requestAnimationFrame(look);
}
