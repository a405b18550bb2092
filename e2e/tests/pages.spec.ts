/** The demo's pages with a real IOC and a real relay. */

import { expectAccessible } from "../fixtures/accessible";
import { expect, test } from "../fixtures/test";

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    test("beamline: a set point moves its plot, and the camera runs", async ({ demo, ioc }) => {
      await demo.page.getByRole("link", { name: "Beamline" }).click();
      await expect(demo.page.getByRole("heading", { level: 1 })).toContainText("Beamline");
      await demo.setPoint("RF:VOLTAGE:SET").send("1.9");
      await expect(demo.setPoint("RF:VOLTAGE:SET").outcome).toContainText("Written");
      expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.9");
      const meter = demo.page.getByRole("meter", { name: "RF voltage" });
      await expect
        .poll(async () => Number(await meter.getAttribute("aria-valuenow")), { timeout: 30_000 })
        .toBeGreaterThan(1.8);
      const camera = demo.page.getByRole("img", { name: "Screen 1: image of 320 × 240 pixels" });
      const picture = async (): Promise<string> =>
        await camera.evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
      const first = await picture();
      await expect.poll(picture).not.toBe(first);
      await expectAccessible(demo.page);

      await ioc.kill();
      await expect(demo.page.locator(".pvwire-strip").first()).toContainText("Disconnected");
      await expect(demo.page.locator(".pvwire-image")).toContainText("No alarm");
    });
  });
}

test("wall: 5,000 readbacks, said in words too", async ({ demo }) => {
  await demo.page.getByRole("link", { name: "Wall" }).click();
  await expect(demo.page.locator('[data-summary="wall"]')).toContainText(
    /^5,000 of 5,000 connected · [\d,]+ minor, [\d,]+ major alarms/,
    { timeout: 30_000 },
  );
  const canvas = demo.page.getByRole("img", { name: /^5,000 readbacks/ });
  await expect(canvas).toBeVisible();
  const right = async (): Promise<number> => {
    const box = await canvas.boundingBox();
    return (box?.x ?? NaN) + (box?.width ?? NaN);
  };
  await expect.poll(right, { message: "within the page" }).toBeLessThan(1440);
  await expectAccessible(demo.page);
  // A translucent system colour is not painted over itself: no more colours than severities here.
  await demo.page.emulateMedia({ forcedColors: "active" });
  await demo.page.reload();
  // A cell that waits for its value has a colour of its own.
  await expect(demo.page.locator('[data-summary="wall"]')).toContainText(
    /5,000 of 5,000 connected.*[1-9][\d,]* minor, [1-9]/s,
    { timeout: 30_000 },
  );
  const grounds = async (): Promise<number> =>
    await canvas.evaluate((element) => {
      const { devicePixelRatio: scale } = window;
      const context = (element as HTMLCanvasElement).getContext("2d");
      const seen = new Set<string>();
      for (let row = 0; row < 20; row += 1) {
        for (let column = 0; column < 20; column += 1) {
          const at = [(column * 62 + 1) * scale, (row * 16 + 1) * scale] as const;
          seen.add(String(context?.getImageData(...at, 1, 1).data));
        }
      }
      return seen.size;
    });
  for (let second = 0; second < 3; second += 1) {
    await demo.page.waitForTimeout(1000);
    expect(await grounds()).toBeLessThanOrEqual(3);
  }
});

test.describe("with counting PVs", () => {
  test.use({ counting: true });

  test("health: rates, skipped values, latency and the relay's counts", async ({ demo, relay }) => {
    await demo.page.getByRole("link", { name: "Health" }).click();
    const counter = demo.page.getByRole("row", { name: /:N0000/ });
    await expect
      .poll(async () => Number(await counter.getByRole("cell").first().innerText()), {
        timeout: 30_000,
      })
      .toBeGreaterThan(5);
    const latency = demo.page.getByLabel("Latency");
    await expect(latency).toContainText(/\d updates; the relay's clock is \d+\.\d ms/);
    // IOC, relay and browser share one clock.
    await expect(latency).toContainText(/Stamp to callback\s*p50 ≤ \d+ ms/);
    const relaySays = demo.page.getByLabel("Relay", { exact: true });
    await expect(relaySays).toContainText(/Clients\s*1/);
    await expect(relaySays).toContainText(/Updates in\s*[\d,]+ \/s/);
    await expect(relaySays).toContainText(/Stamp to sent\s*p50 ≤ \d+ ms/, { timeout: 30_000 });
    await expectAccessible(demo.page);
    await relay.kill();
    await expect(relaySays).toContainText("It doesn't answer", { timeout: 30_000 });
    await expect(demo.page.getByLabel("Connection", { exact: true })).toContainText("lost");
  });
});
