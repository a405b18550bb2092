/**
 * The browser of the tests: that of `PVWIRE_CHROMIUM`, the system's, or Playwright's own if this is
 * undefined. The headless shell is Chromium without the browser's window, whose processes take a
 * quarter of the CPU time of a test.
 */

import { existsSync } from "node:fs";

export const CHROMIUM =
  process.env.PVWIRE_CHROMIUM ??
  ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/google-chrome"].find((path) =>
    existsSync(path),
  );
