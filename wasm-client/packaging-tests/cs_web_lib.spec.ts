/** cs-web-lib's own widgets show PVs, by the package's adapter and as they are. */

import type { Locator } from "@playwright/test";

import { run, serving } from "./command";
import { expect, test } from "./fixtures";

/** What cs-web-lib's widgets show by their outline, in the colours that its app gives them. */
const DISCONNECTED = "dotted rgb(255, 0, 255)";
const NO_ALARM = "solid rgb(0, 0, 0)";
const ALARM = "solid rgb(255, 0, 0)";
const INVALID = "solid rgb(128, 0, 128)";

test("cs-web-lib: the published package's own widgets", async ({
  install,
  page,
  pageUrl,
  port,
  records: { prefix, putRelay },
}) => {
  const cwd = await install("cs-web-lib");
  const env = { VITE_RELAY: `ws://127.0.0.1:${String(putRelay.port)}/ws` };
  await run(["npm", "run", "build"], { cwd, env });
  const where = ["--", "--host=127.0.0.1", `--port=${String(port)}`, "--strictPort"];
  const wrong: string[] = [];
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("console", (message) => {
    // cs-web-lib's own connection has no PVWS here: it would complain of whatever came to it.
    if (/Failed to (subscribe|unsubscribe|put|query)|No connections for/.test(message.text()))
      wrong.push(message.text());
  });
  const box = (name: string): Locator => page.getByRole("region", { name });
  const text = (name: string): Locator => box(name).getByRole("textbox");
  const outline = (name: string): Promise<string> =>
    box(name)
      .locator("fieldset")
      .evaluate((border) => {
        const { outlineColor, outlineStyle } = getComputedStyle(border);
        return `${outlineStyle} ${outlineColor}`;
      });
  await serving(["npm", "run", "preview", ...where], pageUrl, { cwd, env }, async () => {
    await page.goto(`${pageUrl}?prefix=${prefix}`);
    await expect(text("readback"), "precision and units of the record").toHaveValue("20.5 mm");
    await expect(text("counter")).toHaveValue(/^\d+$/);
    const first = Number(await text("counter").inputValue());
    await expect
      .poll(async () => Number(await text("counter").inputValue()))
      .toBeGreaterThan(first + 2);
    expect(await outline("set point"), "no alarm").toBe(NO_ALARM);
    await expect(text("nobody's")).toHaveValue("######");
    expect(await outline("nobody's"), "never connected").toBe(DISCONNECTED);

    await text("set point").fill("90");
    await text("set point").press("Enter");
    await expect(text("readback"), "what was written comes back").toHaveValue("90.0 mm");
    await expect.poll(() => outline("set point"), "in alarm").toBe(ALARM);
    await expect(text("readback")).toHaveCSS("color", "rgb(255, 0, 0)");
    await text("set point").fill("30.26");
    await text("set point").press("Enter");
    await expect(text("readback")).toHaveValue("30.3 mm");
    await expect.poll(() => outline("set point"), "no alarm again").toBe(NO_ALARM);

    await putRelay.kill();
    await expect.poll(() => outline("set point"), "the relay is lost").toBe(INVALID);
    await expect(text("readback"), "the last value stays").toHaveValue("30.3 mm");
    await putRelay.restart();
    await expect.poll(() => outline("set point"), "the relay is back").toBe(NO_ALARM);
  });
  expect(wrong).toEqual([]);
});
