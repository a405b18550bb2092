/** Fixtures of the packaging tests: the packed package, a relay, and an app in a temporary folder. */

import { randomBytes } from "node:crypto";
import { cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { expect, type Page } from "@playwright/test";

import { base } from "../../e2e/fixtures/test";
import { Child } from "../../testbed/ts/child";
import { privateEpicsNetwork } from "../../testbed/ts/epics";
import { PYTHON } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { run } from "./command";

export { expect };

const PACKAGE = path.resolve(import.meta.dirname, "..");
const APPS = path.join(import.meta.dirname, "apps");
const SET_POINT_DB = path.join(import.meta.dirname, "set_point.db");

/** What has been fetched before isn't requested again. */
const NPM = ["--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];

interface PackagingWorker {
  /** Outside the repository, so that nothing in its node_modules can stand in for what is missing. */
  folder: string;
  tarball: string;
  /** Where every app's page is served, one after the other: an origin that the relay takes. */
  port: number;
  relay: Relay;
}

interface PackagingTest {
  pageUrl: string;
  relayUrl: string;
  /** Makes an app from its template in a separate folder and installs the package in it; gives its folder. */
  install: (app: string) => Promise<string>;
  /** Opens the page and waits until it shows a PV that changes. */
  seeLive: (url: string) => Promise<void>;
  /** A record that may be written, and a separate relay. */
  records: { prefix: string; putRelay: Relay };
}

export const test = base.extend<PackagingTest, PackagingWorker>({
  folder: [
    // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
    async ({}, provide) => {
      const folder = await mkdtemp(path.join(tmpdir(), "pvwire-packaging-"));
      await provide(folder);
      await rm(folder, { recursive: true });
    },
    { scope: "worker" },
  ],

  tarball: [
    async ({ folder }, provide) => {
      await run(["npm", "pack", "--silent", "--pack-destination", folder], { cwd: PACKAGE });
      const packed = (await readdir(folder)).find((name) => name.endsWith(".tgz"));
      if (packed === undefined) throw new Error(`npm pack left nothing in ${folder}`);
      await provide(path.join(folder, packed));
    },
    { scope: "worker" },
  ],

  port: [
    // eslint-disable-next-line no-empty-pattern -- as above
    async ({}, provide) => {
      await provide(await freePort());
    },
    { scope: "worker" },
  ],

  relay: [
    async ({ port }, provide) => {
      const origin = `http://127.0.0.1:${String(port)}`;
      const relay = await Relay.start(await privateEpicsNetwork(), [`--allow-origin=${origin}`]);
      await provide(relay);
      await relay.kill();
    },
    { scope: "worker" },
  ],

  pageUrl: async ({ port }, provide) => {
    await provide(`http://127.0.0.1:${String(port)}/`);
  },

  relayUrl: async ({ relay }, provide) => {
    await provide(`ws://127.0.0.1:${String(relay.port)}/ws`);
  },

  install: async ({ folder, tarball }, provide) => {
    await provide((app) => install(app, folder, tarball));
  },

  records: async ({ port }, provide) => {
    const network = await privateEpicsNetwork();
    const prefix = `P${randomBytes(4).toString("hex")}`;
    const ioc = Child.start({
      what: "softIOC",
      command: PYTHON,
      args: ["-m", "epicscorelibs.ioc", "-m", `P=${prefix}`, "-d", SET_POINT_DB],
      env: network.env,
    });
    await ioc.waitForOutput(/complete/);
    const putRelay = await Relay.start(network, [
      `--allow-origin=http://127.0.0.1:${String(port)}`,
      "--enable-put",
      `--allow-put=${prefix}:*`,
    ]);
    await provide({ prefix, putRelay });
    await putRelay.kill();
    await ioc.kill();
  },

  seeLive: async ({ page, relay }, provide) => {
    await provide(async (url) => {
      await seeLive(page, url, relay);
    });
  },
});

/** Makes an app from its template in a new folder, because some tests spoil what is installed. */
export async function install(app: string, folder: string, tarball: string): Promise<string> {
  const home = await mkdtemp(path.join(folder, `${app}-`));
  await cp(path.join(APPS, app), home, { recursive: true });
  // Not `npm ci`: that asks for Next's binaries of other systems, and not every registry has them.
  await run(["npm", "install", "--no-save", ...NPM, tarball], { cwd: home });
  return home;
}

/** A page with a live PV also shows a formula over it and a large array. */
export async function seeFormulaAndArray(page: Page): Promise<void> {
  await expect(page.locator("#formula"), "twice the counter").toHaveText(/^\d*[02468]$/);
  await expect(page.locator("#large")).toHaveText("100000 elements");
}

/** Opens the page and waits until it shows a PV that changes. */
export async function seeLive(page: Page, url: string, relay: Relay): Promise<void> {
  const output: string[] = [];
  page.on("console", (message) => output.push(message.text()));
  page.on("pageerror", (error) => output.push(error.stack ?? error.message));
  page.on("requestfailed", (request) => output.push(`failed: ${request.url()}`));
  page.on("response", (response) => {
    if (!response.ok()) output.push(`${String(response.status())}: ${response.url()}`);
  });
  await page.goto(url);
  const shown = async (): Promise<string> => await page.locator("output").innerText();
  try {
    // A counter: three updates after the first that is seen are no accident.
    await expect.poll(shown, { message: "a PV is shown" }).toMatch(/^\d+$/);
    const first = Number(await shown());
    await expect
      .poll(async () => Number(await shown()), { message: "the PV changes" })
      .toBeGreaterThan(first + 2);
  } catch (error) {
    const context = `The page printed:\n${output.join("\n")}\nThe relay printed:\n${relay.output}`;
    throw new Error(`${String(error)}\n${context}`, { cause: error });
  }
}
