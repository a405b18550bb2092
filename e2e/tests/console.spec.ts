/** The demo's console: GraphiQL with the machine's live values. */

import type { Locator } from "@playwright/test";

import { expectAccessible } from "../fixtures/accessible";
import { expect, test } from "../fixtures/test";

const answer = (page: Locator): Locator => page.getByRole("region", { name: "Result Window" });

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    test("a subscription runs live, and says when the IOC is gone", async ({ demo, ioc }) => {
      // No request goes to another host: the console must work without the internet.
      const foreign: string[] = [];
      demo.page.on("request", (request) => {
        if (!["127.0.0.1", "localhost"].includes(new URL(request.url()).hostname)) {
          foreign.push(request.url());
        }
      });
      await ioc.hold("RING:CURRENT");
      await ioc.put("RING:CURRENT", 123.4);
      await demo.page.getByRole("link", { name: "Console" }).click();
      const console = demo.page.getByRole("region", { name: "GraphQL console" });
      await expect(console.getByText("subscription Live")).toBeVisible();
      await console.getByRole("button", { name: /^Execute query/ }).click();
      await expect(answer(console)).toContainText('"string": "123.4');
      await ioc.put("RING:CURRENT", 234.5);
      await expect(answer(console)).toContainText('"string": "234.5');
      await expectAccessible(demo.page);

      await ioc.kill();
      await expect(answer(console)).toContainText('"state": "disconnected"');
      expect(foreign).toEqual([]);
    });
  });
}

test("the other examples answer: a query and a refused mutation", async ({ demo, ioc }) => {
  await demo.page.getByRole("link", { name: "Console" }).click();
  const console = demo.page.getByRole("region", { name: "GraphQL console" });
  await console.getByRole("button", { name: "Read" }).click();
  await expect(console.getByText("query Read")).toBeVisible();
  await console.getByRole("button", { name: /^Execute query/ }).click();
  await expect(answer(console)).toContainText('"units": "MV"');
  await console.getByRole("button", { name: "Write" }).click();
  await expect(console.getByText("mutation Write")).toBeVisible();
  await console.getByRole("button", { name: /^Execute query/ }).click();
  await expect(answer(console)).toContainText('"string": "1.90 MV"');
  await expect(answer(console)).toContainText('"path"');
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.9");
});
