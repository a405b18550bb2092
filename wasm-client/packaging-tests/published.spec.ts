/** The packed package by the rules of publint (package.json and files) and attw (types of each entry). */

import path from "node:path";

import { run } from "./command";
import { test } from "./fixtures";

const cwd = path.resolve(import.meta.dirname, "..");

test("publint finds nothing wrong with the packed package", async ({ tarball }) => {
  await run(["npx", "--no-install", "publint", "run", "--strict", tarball], { cwd });
});

test("attw resolves the types of every entry", async ({ tarball }) => {
  // The package is ESM only; the style sheet and the modules have no types.
  const options = [
    "--profile",
    "esm-only",
    "--exclude-entrypoints",
    "display.css",
    "widgets.css",
    "wasm",
    "page.wasm",
    "graphql.wasm",
    "archive.wasm",
  ];
  await run(["npx", "--no-install", "attw", tarball, ...options], { cwd });
});
