/**
 * The package, as npm packs it, shows a live PV in apps of other bundlers and frameworks, and keeps the rules of publint
 * (package.json and files) and attw (types of each entry).
 */

import { readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";

import type { Locator, Page } from "@playwright/test";

import { ROOT } from "../../testbed/ts/paths";
import type { Relay } from "../../testbed/ts/relay";
import { serveFolder } from "../../testbed/ts/static_server";
import { run, serving } from "./command";
import { expect, seeFormulaAndArray, seeLive, test } from "./fixtures";

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
  expect(create).toMatch(/^cd \.\. && npm create --yes vite@latest my-app /);
  expect(install).toMatch(/^cd my-app && .* npm install \S+\/pvwire-\d\S*\.tgz$/);
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
  const wrong: Error[] = [];
  page.on("pageerror", (error) => wrong.push(error));
  const seeWidgets = async (): Promise<void> => {
    await seeLive(pageUrl);
    await expect(page.locator(".pvwire-readback-text"), "a widget, without uPlot").toHaveText(
      /^\d/,
    );
    await expect(page.locator(".pvwire-strip"), "a plot says what it needs").toContainText(
      'Plots need uPlot: run "npm install uplot" in the app.',
    );
    expect(wrong).toEqual([]);
  };
  await serving(["npm", "run", "preview", ...where], pageUrl, { cwd, env }, async () => {
    await seeWidgets();
    await seeFormulaAndArray(page);
    await expect(page.locator("#graphql")).toHaveText(/^\d/);
  });
  await serving(["npm", "run", "dev", ...where], pageUrl, { cwd, env }, seeWidgets);
});

test("Next.js: a provider in the server's layout, and client components below it", async ({
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
    await seeFormulaAndArray(page);
    await expect(page.locator("h1")).toHaveText("A counter");
    await expect(page.locator(".pvwire-readback-text"), "a widget").toHaveText(/^\d+$/);
  });
});

test('plain <script type="module">, and custom elements', async ({
  install,
  page,
  pageUrl,
  port,
  relayUrl,
  seeLive,
}) => {
  const cwd = await install("plain");
  const howTo = path.join(ROOT, "docs/how-to/plain-page.md");
  const copy = /^ *mkdir pvwire && cp .*$/m.exec(await readFile(howTo, "utf8"))?.[0] ?? "false";
  await run(["bash", "-euc", copy], { cwd });
  const end = await serveFolder(cwd, port);
  const relay = encodeURIComponent(relayUrl);
  await seeLive(`${pageUrl}?relay=${relay}`);
  await page.goto(`${pageUrl}elements.html?relay=${relay}`);
  const value = (label: string): Locator => page.locator(`[label="${label}"] [data-part="value"]`);
  await expect(value("Count")).toHaveText(/^\d+$/);
  await expect(value("Double")).toHaveText(/^\d*[02468]$/);
  await expect(value("Large")).toHaveText("100,000 elements · V");
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
  const clients = (): Promise<unknown> => clientsOf(relay);
  const url = (place: string): string =>
    `${pageUrl}shared.html?in=${place}&relay=${encodeURIComponent(relayUrl)}`;
  await expect.poll(clients, { message: "those of other tests are gone" }).toBe(0);
  await seeLive(url("shared"));
  const other = await context.newPage();
  await other.goto(url("shared"));
  const shown = (): Promise<number> => shownOn(other);
  await expect.poll(shown).toBeGreaterThan(0);
  await expect.poll(clients, { message: "they share one connection" }).toBe(1);

  await page.close();
  const before = await shown();
  await expect.poll(shown, { message: "the other tab goes on" }).toBeGreaterThan(before + 5);
  await expect.poll(clients, { message: "they share one connection" }).toBe(1);
  await other.goto(url("dedicated"));
  await expect.poll(shown, { message: "in a separate worker" }).toBeGreaterThan(before + 5);
  await other.close();
  await expect.poll(clients, { message: "the last tab ends the connection" }).toBe(0);
  await end();
});

const shownOn = async (page: Page): Promise<number> =>
  Number(await page.locator("output").innerText());

/** The clients that a relay counts. */
async function clientsOf({ port }: Relay): Promise<unknown> {
  const status = await fetch(`http://127.0.0.1:${String(port)}/status`);
  return ((await status.json()) as { clients: unknown }).clients;
}

/** One of a relay's counters. */
async function counterOf({ port }: Relay, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

/** Why the connection isn't where the page wanted it, as its console says. */
function reasons(page: Page): string[] {
  const reported: string[] = [];
  page.on("console", (message) => {
    const reason = /^pvwire: the connection can't be in (.*)/.exec(message.text());
    if (reason?.[1] !== undefined) reported.push(reason[1]);
  });
  return reported;
}

test("fallbacks of workers: another worker, or the page itself", async ({
  context,
  install,
  pageUrl,
  port,
  relay,
  relayUrl,
}) => {
  const folder = await install("plain");
  const end = await serveFolder(folder, port);
  const url = `${pageUrl}shared.html?in=shared&relay=${encodeURIComponent(relayUrl)}`;

  await test.step("no SharedWorker in this browser", async () => {
    const page = await context.newPage();
    const reported = reasons(page);
    await page.addInitScript(() => {
      Reflect.deleteProperty(window, "SharedWorker");
    });
    await seeLive(page, url, relay);
    expect(reported).toEqual(["a shared worker (there is no SharedWorker here)"]);
    expect(page.workers()).toHaveLength(1);

    await page.workers()[0]?.evaluate(() => {
      setTimeout(() => {
        throw new Error("died in a test");
      });
    });
    await expect.poll(() => reported.length, { message: "a worker that fails" }).toBe(2);
    expect(reported[1]).toMatch(/^a dedicated worker \(.*died in a test/);
    await expect.poll(() => page.workers().length).toBe(0);
    const before = await shownOn(page);
    await expect
      .poll(() => shownOn(page), { message: "the page goes on by itself" })
      .toBeGreaterThan(before + 2);
    await page.close();
  });

  await test.step("a shared worker that ends while two tabs use it", async () => {
    const pages = [await context.newPage(), await context.newPage()];
    const reported = pages.map(reasons);
    for (const page of pages) await seeLive(page, url, relay);
    const session = await context.browser()?.newBrowserCDPSession();
    const { targetInfos = [] } = (await session?.send("Target.getTargets")) ?? {};
    const worker = targetInfos.find(({ type }) => type === "shared_worker");
    const sessions = (): Promise<number> => counterOf(relay, "pvwire_sessions_opened_total");
    const before = await sessions();
    await session?.send("Target.closeTarget", { targetId: worker?.targetId ?? "" });
    // The time without a connection may be shorter than a check of it.
    await expect.poll(sessions, { message: "a new worker" }).toBeGreaterThan(before);
    // The relay closes a counter that has had no client for some seconds; the counter then starts
    // again, below the frozen value.
    const frozen = await Promise.all(pages.map(shownOn));
    for (const [at, page] of pages.entries()) {
      await expect.poll(() => shownOn(page), { timeout: 60_000 }).not.toBe(frozen[at]);
    }
    await expect.poll(() => clientsOf(relay), { message: "they share a new worker" }).toBe(1);
    expect(reported).toEqual([[], []]);
    for (const page of pages) await page.close();
  });

  await test.step("a page that may have no workers", async () => {
    const page = await context.newPage();
    const reported = reasons(page);
    const html = await readFile(path.join(folder, "shared.html"), "utf8");
    const policy = `<meta http-equiv="Content-Security-Policy" content="worker-src 'none'" />`;
    await writeFile(path.join(folder, "no_workers.html"), html.replace("<meta", `${policy}<meta`));
    await seeLive(page, url.replace("shared.html", "no_workers.html"), relay);
    expect(reported.map((reason) => reason.split(" (")[0])).toEqual([
      "a shared worker",
      "a dedicated worker",
    ]);
    expect(page.workers()).toHaveLength(0);
    await page.close();
  });

  const worker = path.join(folder, "node_modules/pvwire/dist/worker/socket_worker.js");
  for (const [what, spoil, reason] of [
    // In this order: a page may still get the silent shared worker of the page before.
    ["a worker's file that isn't there", () => rm(worker), "its file can't be loaded"],
    ["a worker that says nothing", () => writeFile(worker, ""), "it doesn't answer"],
  ] as const) {
    await test.step(what, async () => {
      await spoil();
      const page = await context.newPage();
      const reported = reasons(page);
      await seeLive(page, url, relay);
      expect(reported).toEqual([`a shared worker (${reason})`, `a dedicated worker (${reason})`]);
      await page.close();
    });
  }
  await end();
});

test("large values reach every tab of a worker by one stream", async ({
  context,
  install,
  pageUrl,
  port,
  relay,
  relayUrl,
}) => {
  const end = await serveFolder(await install("plain"), port);
  const streamed = (): Promise<number> => counterOf(relay, "pvwire_large_frames_streamed_total");
  const clients = (): Promise<unknown> => clientsOf(relay);
  await expect.poll(clients, { message: "those of other tests are gone" }).toBe(0);
  for (const [place, tabs] of [
    ["dedicated", 1],
    ["shared", 2],
  ] as const) {
    const url = `${pageUrl}large.html?in=${place}&relay=${encodeURIComponent(relayUrl)}`;
    const wrong: Error[] = [];
    const before = await streamed();
    const pages: Page[] = [];
    const elsewhere: string[][] = [];
    while (pages.length < tabs) {
      const page = await context.newPage();
      elsewhere.push(reasons(page));
      page.on("pageerror", (error) => wrong.push(error));
      await seeLive(page, url, relay);
      pages.push(page);
    }
    await expect.poll(streamed, { message: place }).toBeGreaterThan(before + 3);
    for (const page of pages) {
      const shown = await shownOn(page);
      await expect.poll(() => shownOn(page)).toBeGreaterThan(shown + 2);
    }
    expect(wrong).toEqual([]);
    expect(elsewhere.flat()).toEqual([]);
    await expect.poll(clients, { message: "they have one connection" }).toBe(1);
    for (const page of pages) await page.close();
    await expect.poll(clients).toBe(0);
  }
  await end();
});

const PACKAGE = path.resolve(import.meta.dirname, "..");

test("publint finds nothing wrong with the packed package", async ({ tarball }) => {
  await run(["npx", "--no-install", "publint", "run", "--strict", tarball], { cwd: PACKAGE });
});

test("npm would publish the packed package as it is, without a warning", async ({
  folder,
  tarball,
}) => {
  // The level of messages may be that of an npm that runs the tests.
  const publish = ["npm", "publish", "--dry-run", "--access=public", "--loglevel=notice"];
  const output = await run([...publish, tarball], { cwd: folder });
  expect(output).toMatch(/\+ pvwire@\d/);
  // The test has no account.
  const warnings = output
    .split("\n")
    .filter((line) => /^npm warn/i.test(line) && !line.includes("requires you to be logged in"));
  expect(warnings).toEqual([]);
  const licence = await run(["tar", "xzOf", tarball, "package/LICENSE"], { cwd: folder });
  expect(licence).toBe(await readFile(path.resolve(PACKAGE, "../LICENSE"), "utf8"));
});

test("attw resolves the types of every entry", async ({ tarball }) => {
  // The package is ESM only; the style sheet and the modules have no types.
  const options = [
    "--profile",
    "esm-only",
    "--exclude-entrypoints",
    "display.css",
    "plots.css",
    "widgets.css",
    "wasm",
    "page.wasm",
    "graphql.wasm",
    "archive.wasm",
  ];
  await run(["npx", "--no-install", "attw", tarball, ...options], { cwd: PACKAGE });
});
