/**
 * Builds dist/ from ts/, unless dist/ was built from the same inputs.
 *
 * A fingerprint of the inputs is in node_modules/.cache/ and not in dist/, which is published.
 */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { buildElements } from "./build_elements.js";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const STAMP = path.join(HERE, "node_modules/.cache/dist.json");
const TSC = createRequire(import.meta.url).resolve("typescript/bin/tsc");

const INPUTS = [
  "ts",
  "pkg",
  "build.js",
  "build_elements.js",
  "package.json",
  "tsconfig.build.json",
  "../tsconfig.base.json",
  "../package-lock.json",
  "../schema/PROTOCOL.md",
  "../LICENSE",
];

const COPIED = [
  ["ts/display/display.css", "dist/display/display.css"],
  ["ts/plots/plots.css", "dist/plots/plots.css"],
  ["../schema/PROTOCOL.md", "dist/PROTOCOL.md"],
  ["../LICENSE", "dist/LICENSE"],
];

/** A style sheet that only imports others, with their text in place of the imports. */
function styleSheet(place) {
  const from = path.join(HERE, place);
  const imported = [...readFileSync(from, "utf8").matchAll(/@import "(.*)";/g)];
  return imported
    .map(([, file]) => readFileSync(path.join(path.dirname(from), file), "utf8"))
    .join("\n");
}

/** Names and contents of these files and folders. */
function fingerprint(places) {
  const hash = createHash("sha256");
  for (const place of places) {
    const below = path.join(HERE, place);
    const files = statSync(below, { throwIfNoEntry: false })?.isDirectory()
      ? readdirSync(below, { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => path.join(entry.parentPath, entry.name))
          .sort()
      : [below];
    for (const file of files) {
      hash.update(path.relative(HERE, file));
      hash.update(existsSync(file) ? readFileSync(file) : "");
    }
  }
  return hash.digest("hex");
}

const before = existsSync(STAMP) ? JSON.parse(readFileSync(STAMP, "utf8")) : {};
const inputs = fingerprint(INPUTS);
if (before.inputs !== inputs || before.outputs !== fingerprint(["dist"])) {
  // Files of sources that are gone must not be published.
  rmSync(path.join(HERE, "dist"), { recursive: true, force: true });
  execFileSync(process.execPath, [TSC, "-p", "tsconfig.build.json"], {
    cwd: HERE,
    stdio: "inherit",
  });
  for (const [from, to] of COPIED) {
    cpSync(path.join(HERE, from), path.join(HERE, to));
  }
  writeFileSync(path.join(HERE, "dist/widgets/widgets.css"), styleSheet("ts/widgets/widgets.css"));
  await buildElements(HERE);
  mkdirSync(path.dirname(STAMP), { recursive: true });
  writeFileSync(STAMP, JSON.stringify({ inputs, outputs: fingerprint(["dist"]) }));
}
