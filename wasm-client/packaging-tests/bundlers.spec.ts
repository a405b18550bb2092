/** The packed package in the builds of other bundlers, in tests of applications and in Node. */

import { cp, mkdir } from "node:fs/promises";
import path from "node:path";
import { stripVTControlCharacters } from "node:util";

import { serveFolder } from "../../testbed/ts/static_server";
import { run } from "./command";
import { expect, seeFormulaAndArray, test } from "./fixtures";

test("webpack, Rspack, Rollup, esbuild and Parcel: built", async ({
  install,
  page,
  pageUrl,
  port,
  relayUrl,
  seeLive,
}) => {
  const cwd = await install("bundlers");
  for (const bundler of ["webpack", "rspack", "rollup", "esbuild", "parcel"]) {
    await test.step(bundler, async () => {
      const site = path.join(cwd, bundler);
      await mkdir(site);
      // Parcel writes its own page.
      if (bundler !== "parcel") await cp(`${cwd}/src/index.html`, `${site}/index.html`);
      await run(["npm", "run", bundler], { cwd, env: { SITE: bundler } });
      // What was bundled needs nothing of what it was made from, which isn't served.
      const end = await serveFolder(site, port);
      await seeLive(`${pageUrl}?relay=${encodeURIComponent(relayUrl)}`);
      await seeFormulaAndArray(page);
      await page.goto("about:blank");
      await end();
    });
  }
});

test("Jest and Vitest: a relay's PVs, and a relay inside the test", async ({
  install,
  relayUrl,
  tarball,
}) => {
  const cwd = await install("unit-tests");
  const env = { RELAY: relayUrl };
  const [jest, vitest] = await Promise.all([
    run(["npm", "run", "jest"], { cwd, env }),
    run(["npm", "run", "vitest"], { cwd, env }),
  ]);
  expect(stripVTControlCharacters(jest)).toMatch(/Tests: +3 passed, 3 total/);
  expect(stripVTControlCharacters(vitest)).toMatch(/Tests +3 passed \(3\)/);

  await test.step("with the oldest React that the package takes", async () => {
    const packages = [tarball, "react@18.3.1", "react-dom@18.3.1"];
    await run(["npm", "install", "--no-save", "--no-audit", ...packages], { cwd });
    const output = await run(["npm", "run", "vitest"], { cwd, env });
    expect(stripVTControlCharacters(output)).toMatch(/Tests +3 passed \(3\)/);
  });
});

test("Node 20 and 22: in an application, with a relay and without", async ({
  install,
  relayUrl,
}) => {
  const cwd = await install("node");
  const env = { RELAY: relayUrl, NO_COLOR: "1" };
  const check = async (major: number): Promise<void> => {
    const node = path.join(cwd, `node_modules/node-${String(major)}/bin/node`);
    expect(await run([node, "--version"], { cwd })).toMatch(new RegExp(`^v${String(major)}\\.`));
    const output = await run([node, "--test"], { cwd, env });
    expect(stripVTControlCharacters(output), node).toMatch(/pass 10\b/);
  };
  await Promise.all([check(20), check(22)]);
});
