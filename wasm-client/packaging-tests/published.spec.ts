/** The packed package by the rules of publint (package.json and files) and attw (types of each entry). */

import { readFile } from "node:fs/promises";
import path from "node:path";

import { run } from "./command";
import { expect, test } from "./fixtures";

const cwd = path.resolve(import.meta.dirname, "..");

test("publint finds nothing wrong with the packed package", async ({ tarball }) => {
  await run(["npx", "--no-install", "publint", "run", "--strict", tarball], { cwd });
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
  expect(licence).toBe(await readFile(path.resolve(cwd, "../LICENSE"), "utf8"));
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
  await run(["npx", "--no-install", "attw", tarball, ...options], { cwd });
});
