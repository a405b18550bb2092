/** A build without changes leaves dist as it is. */

import { execFileSync } from "node:child_process";
import { existsSync, statSync, utimesSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const PACKAGE = path.resolve(import.meta.dirname, "..");
const LICENSE = path.join(PACKAGE, "dist/LICENSE");
const INDEX = path.join(PACKAGE, "dist/index.js");

function build(): void {
  execFileSync(process.execPath, ["build.js"], { cwd: PACKAGE });
}

test("a build with nothing changed leaves dist alone", { timeout: 120_000 }, () => {
  build();
  const long = new Date(2001, 1, 1);
  utimesSync(INDEX, long, long);
  build();
  expect(statSync(INDEX).mtimeMs).toBe(long.getTime());
  expect(existsSync(LICENSE)).toBe(true);
});
