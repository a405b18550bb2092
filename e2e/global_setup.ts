/** What must stand before the first story? The demo page, built, and the database of 1,000 records. */

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

import { build } from "vite";

import { PYTHON, ROOT, THOUSAND_DB, WEB_DEMO } from "./fixtures/paths";

export default async function globalSetup(): Promise<void> {
  mkdirSync(path.dirname(THOUSAND_DB), { recursive: true });
  writeFileSync(
    THOUSAND_DB,
    execFileSync(PYTHON, [path.join(ROOT, "tools/thousand_db.py")], { encoding: "utf8" }),
  );
  await build({
    root: WEB_DEMO,
    configFile: path.join(WEB_DEMO, "vite.config.ts"),
    logLevel: "error",
  });
}
