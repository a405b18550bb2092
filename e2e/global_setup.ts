/** Before the first story: builds the pages and the databases of 1,000 records. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

import { build } from "vite";

import {
  builtPage,
  PAGE_FOLDER,
  PAGES,
  type PageName,
  type PageSource,
} from "./fixtures/built_pages";
import { PYTHON, ROOT, STILL_THOUSAND_DB, THOUSAND_DB } from "../testbed/ts/paths";

/** A font of Debian's fonts-dejavu-core, the only package that fonts.conf uses. */
const FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf";

export default async function globalSetup(): Promise<() => void> {
  if (!existsSync(FONT)) {
    throw new Error(`${FONT} is not there: make setup-browser installs fonts-dejavu-core`);
  }
  mkdirSync(path.dirname(THOUSAND_DB), { recursive: true });
  const thousand = execFileSync(PYTHON, [path.join(ROOT, "tools/thousand_db.py")], {
    encoding: "utf8",
  });
  writeFileSync(THOUSAND_DB, thousand);
  const still = 'field(SCAN, "Passive") field(PINI, "YES")';
  writeFileSync(STILL_THOUSAND_DB, thousand.replaceAll('field(SCAN, ".1 second")', still));
  // In a folder of this run: a page that is replaced while a story loads it fails that story.
  const folder = mkdtempSync(path.join(path.dirname(THOUSAND_DB), "pages-"));
  process.env[PAGE_FOLDER] = folder;
  for (const [name, { configFile, plugins, root }] of Object.entries<PageSource>(PAGES)) {
    await build({
      root,
      configFile,
      plugins: [...(plugins ?? [])],
      logLevel: "error",
      build: { outDir: builtPage(name as PageName), emptyOutDir: true },
    });
  }
  return () => {
    rmSync(folder, { recursive: true });
  };
}
