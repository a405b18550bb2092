/** Which browser opens the pages? The system's if there is one, else Playwright's own. */

import { existsSync } from "node:fs";

export const CHROMIUM =
  process.env.PVWIRE_CHROMIUM ??
  ["/usr/bin/chromium", "/usr/bin/google-chrome"].find((path) => existsSync(path));
