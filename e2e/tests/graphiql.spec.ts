/** GraphiQL, which is part of the relay and of the demo's console, and images of the relay in pages of other origins. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";

import type { Locator } from "@playwright/test";

import { Child } from "../../testbed/ts/child";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { Relay } from "../../testbed/ts/relay";
import { expectAccessible } from "../fixtures/screen";
import { expect, test } from "../fixtures/test";

test("GraphiQL of the relay runs a subscription and loads nothing from elsewhere", async ({
  network,
  page,
}) => {
  const relay = await Relay.start(network, ["--coniql", "--coniql-graphiql"]);
  const origin = `http://127.0.0.1:${String(relay.port)}`;
  const foreign: string[] = [];
  page.on("request", (request) => {
    if (!/^(data:|blob:)/u.test(request.url()) && !request.url().startsWith(origin))
      foreign.push(request.url());
  });
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  // What the page's content security policy refuses.
  page.on("console", (message) => {
    if (message.text().includes("Content Security Policy")) errors.push(message.text());
  });
  await page.goto(`${origin}/graphiql`);
  // The schema is read by introspection.
  await page.getByRole("button", { name: /documentation/iu }).click();
  await expect(page.getByText("Subscription", { exact: true }).first()).toBeVisible();
  await page.getByRole("button", { name: /execute query/iu }).click();
  const result = page.locator(".result-window");
  await expect(result).toContainText("ssim://sine");
  await expect(result).toContainText("VALID");
  await page.getByRole("button", { name: /stop query/iu }).click();
  expect(foreign).toEqual([]);
  expect(errors).toEqual([]);
});

test("on a phone GraphiQL shows the result below the editor", async ({ network, page }) => {
  const relay = await Relay.start(network, ["--coniql", "--coniql-graphiql"]);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`http://127.0.0.1:${String(relay.port)}/graphiql`);
  await page.getByRole("button", { name: /execute query/iu }).click();
  const result = page.locator(".result-window");
  await expect(result).toContainText("VALID");
  const box = await result.boundingBox();
  expect(box?.width).toBeGreaterThan(300);
  expect(box?.height).toBeGreaterThan(200);
  // In forced colours the sign of the button is not in the colour of the page.
  await page.emulateMedia({ forcedColors: "active", colorScheme: "light" });
  const colours = await page.locator(".graphiql-execute-button").evaluate((button) => {
    const sign = button.querySelector("svg");
    if (sign === null) throw new Error("no sign");
    return [getComputedStyle(button).backgroundColor, getComputedStyle(sign).fill];
  });
  expect(colours[1]).not.toBe(colours[0]);
});

test("the relay's own page shows its PVs and runs an injected script neither there nor in GraphiQL", async ({
  network,
  page,
}) => {
  const relay = await Relay.start(network, ["--coniql", "--coniql-graphiql"]);
  const refused: string[] = [];
  page.on("console", (message) => {
    if (message.text().includes("Content Security Policy")) refused.push(message.text());
  });
  for (const pathname of ["/", "/graphiql"]) {
    refused.length = 0;
    await page.goto(`http://127.0.0.1:${String(relay.port)}${pathname}`);
    const ready = pathname === "/" ? page.locator("h1") : page.getByRole("button").first();
    await expect(ready).toBeVisible();
    expect(refused).toEqual([]);
    const ran = await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "globalThis.injected = true";
      document.body.append(script);
      const image = document.createElement("div");
      image.innerHTML = '<img src="data:," onerror="globalThis.injected = true">';
      document.body.append(image);
      return "injected" in globalThis;
    });
    expect(ran).toBe(false);
    await expect.poll(() => refused.length).toBeGreaterThan(0);
  }
});

test("a listed page shows an image of the relay, another page doesn't", async ({
  network,
  page,
  prefix,
}) => {
  const camera = Child.start({
    what: "the pvAccess server",
    command: PYTHON,
    args: ["-u", path.join(ROOT, "e2e/fixtures/structures.py"), prefix],
    env: network.env,
  });
  await camera.waitForOutput(/serving/);
  const server = createServer((request, response) => {
    const address = new URL(request.url ?? "/", "http://127.0.0.1").searchParams.get("image") ?? "";
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><img src="${address.replaceAll('"', "")}" alt="detector">`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const listed = await Relay.start(network, [`--allow-origin=http://127.0.0.1:${String(port)}`]);
  const other = await Relay.start(network, []);
  const width = async (relay: Relay): Promise<number> => {
    const image = `http://127.0.0.1:${String(relay.port)}/pv/pva:%2F%2F${prefix}:CAMERA.png?timeout_ms=20000`;
    await page.goto(`http://127.0.0.1:${String(port)}/?image=${encodeURIComponent(image)}`, {
      waitUntil: "load",
    });
    return page.locator("img").evaluate((element) => (element as HTMLImageElement).naturalWidth);
  };
  expect(await width(listed)).toBeGreaterThan(0);
  expect(await width(other)).toBe(0);
  server.close();
  await camera.kill();
});

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
