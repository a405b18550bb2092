/** Does the package, as npm packs it, show a live PV where people will install it? */

import { readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";

import { run, serving } from "./command";
import { expect, test } from "./fixtures";
import { serveFolder } from "./static_server";

/** Written as `latest` in the README; pinned here, so that a test doesn't change by itself. */
const CREATE_VITE = "vite@9.3.0";

test("README: what it says of a new app works as it is written", async ({
  folder,
  page,
  pageUrl,
  port,
  relay,
  tarball,
}) => {
  const readme = await readFile(path.resolve(import.meta.dirname, "../../README.md"), "utf8");
  const section = readme.split(/^## /m).find((text) => text.startsWith("In your own React app"));
  const block = (language: string): string =>
    section?.split(`\n\`\`\`${language}\n`)[1]?.split("\n```")[0] ?? "";
  const [make, create = "", install = ""] = block("sh").split("\n");
  // The fixture packed it.
  expect(make).toMatch(/^make package\b/);
  expect(create).toMatch(/^cd \.\. && npm create vite@latest my-app /);
  expect(install).toMatch(/^cd my-app && .* npm install \S+\/pvwire-[\d.]+\.tgz$/);
  const commands = [
    create.replace("cd .. && ", "").replace("vite@latest", CREATE_VITE),
    install.replace(/\S+\.tgz$/, tarball),
  ];
  await run(["bash", "-euc", commands.join("\n")], {
    cwd: folder,
    env: { npm_config_prefer_offline: "true", npm_config_audit: "false", npm_config_yes: "true" },
  });
  const cwd = path.join(folder, "my-app");
  await writeFile(path.join(cwd, "src/App.tsx"), block("tsx"));
  const config = block("ts").replace("127.0.0.1:8080", `127.0.0.1:${String(relay.port)}`);
  await writeFile(path.join(cwd, "vite.config.ts"), config);
  await run(["npm", "run", "build"], { cwd });
  const where = ["--", "--host=127.0.0.1", `--port=${String(port)}`, "--strictPort"];
  await serving(["npm", "run", "dev", ...where], pageUrl, { cwd }, async () => {
    await page.goto(pageUrl);
    const shown = page.locator("#root span");
    await expect(shown).toHaveText(/^-?\d+\.\d+/, { timeout: 60_000 });
    const first = await shown.innerText();
    await expect(shown).not.toHaveText(first);
  });
});

test("Vite: built, type-checked, and while developing", async ({
  install,
  page,
  pageUrl,
  port,
  relayUrl,
  seeLive,
}) => {
  const cwd = await install("vite");
  const env = { VITE_RELAY: relayUrl };
  const where = ["--", "--host=127.0.0.1", `--port=${String(port)}`, "--strictPort"];
  await run(["npm", "run", "build"], { cwd, env });
  await serving(["npm", "run", "preview", ...where], pageUrl, { cwd, env }, async () => {
    await seeLive(pageUrl);
    await expect(page.locator(".pvwire-readback-text"), "a widget, without uPlot").toHaveText(
      /^\d/,
    );
    await expect(page.locator("#graphql")).toHaveText(/^\d/);
  });
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

test("one connection for two tabs, in a worker that they share", async ({
  context,
  install,
  page,
  pageUrl,
  port,
  relay,
  relayUrl,
  seeLive,
}) => {
  const end = await serveFolder(await install("plain"), port);
  const clients = async (): Promise<unknown> => {
    const status = await fetch(`http://127.0.0.1:${String(relay.port)}/status`);
    return ((await status.json()) as { clients: unknown }).clients;
  };
  const url = (place: string): string =>
    `${pageUrl}shared.html?in=${place}&relay=${encodeURIComponent(relayUrl)}`;
  await expect.poll(clients, { message: "those of other tests are gone" }).toBe(0);
  await seeLive(url("shared"));
  const other = await context.newPage();
  await other.goto(url("shared"));
  const shown = async (): Promise<number> => Number(await other.locator("output").innerText());
  await expect.poll(shown).toBeGreaterThan(0);
  expect(await clients()).toBe(1);

  await page.close();
  const before = await shown();
  await expect.poll(shown, { message: "the other tab goes on" }).toBeGreaterThan(before + 5);
  expect(await clients()).toBe(1);
  await other.goto(url("dedicated"));
  await expect.poll(shown, { message: "in a worker of its own" }).toBeGreaterThan(before + 5);
  await other.close();
  await expect.poll(clients, { message: "the last tab ends the connection" }).toBe(0);
  await end();
});

test("Node: in an application's tests", async ({ install, relayUrl }) => {
  const cwd = await install("node");
  const output = await run(["npm", "test"], { cwd, env: { RELAY: relayUrl } });
  expect(output).toMatch(/pass 6\b/);
});
