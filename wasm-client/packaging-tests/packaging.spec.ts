/** Does the package, as npm packs it, show a live PV where people will install it? */

import { rm } from "node:fs/promises";

import { run, serving } from "./command";
import { expect, test } from "./fixtures";
import { serveFolder } from "./static_server";

test("Vite: built, type-checked, and while developing", async ({
  install,
  pageUrl,
  port,
  relayUrl,
  seeLive,
}) => {
  const cwd = await install("vite");
  const env = { VITE_RELAY: relayUrl };
  const where = ["--", "--host=127.0.0.1", `--port=${String(port)}`, "--strictPort"];
  await run(["npm", "run", "build"], { cwd, env });
  await serving(["npm", "run", "preview", ...where], pageUrl, { cwd, env }, () => seeLive(pageUrl));
  await serving(["npm", "run", "dev", ...where], pageUrl, { cwd, env }, () => seeLive(pageUrl));
});

test("webpack: built", async ({ install, pageUrl, port, relayUrl, seeLive }) => {
  const cwd = await install("webpack");
  await run(["npm", "run", "build"], { cwd, env: { RELAY: relayUrl } });
  // What was bundled needs nothing of what it was made from.
  await rm(`${cwd}/node_modules`, { recursive: true });
  const end = await serveFolder(cwd, port);
  await seeLive(pageUrl);
  await end();
});

test("Next.js: a client component on a page that the server renders", async ({
  install,
  page,
  pageUrl,
  port,
  relayUrl,
  seeLive,
}) => {
  const cwd = await install("next");
  const env = { NEXT_PUBLIC_RELAY: relayUrl, NEXT_TELEMETRY_DISABLED: "1" };
  await run(["npm", "run", "build"], { cwd, env });
  const where = ["--", "--hostname=127.0.0.1", `--port=${String(port)}`];
  await serving(["npm", "run", "start", ...where], pageUrl, { cwd, env }, async () => {
    const rendered = await (await fetch(pageUrl)).text();
    expect(rendered, "the server renders the component without a value").toContain(
      "<output></output>",
    );
    await seeLive(pageUrl);
    await expect(page.locator("h1")).toHaveText("A counter");
  });
});

test('plain <script type="module">', async ({ install, pageUrl, port, relayUrl, seeLive }) => {
  const end = await serveFolder(await install("plain"), port);
  await seeLive(`${pageUrl}?relay=${encodeURIComponent(relayUrl)}`);
  await end();
});

test("Node: in an application's tests", async ({ install, relayUrl }) => {
  const cwd = await install("node");
  const output = await run(["npm", "test"], { cwd, env: { RELAY: relayUrl } });
  expect(output).toMatch(/pass 2\b/);
});
