/** The browser that opens the pages: the system's Chromium, or else Playwright's. */

import { existsSync } from "node:fs";

export const CHROMIUM =
  process.env.PVWIRE_CHROMIUM ??
  ["/usr/bin/chromium", "/usr/bin/google-chrome"].find((path) => existsSync(path));
