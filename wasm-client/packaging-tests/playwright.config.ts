/** Runs the packaging tests one after the other: each installs, builds and opens an app. */

import { defineConfig } from "@playwright/test";

import { CHROMIUM } from "../../testbed/ts/chromium";
import { DEADLINE_MS } from "../../testbed/ts/deadline";

export default defineConfig({
  testDir: ".",
  testMatch: "*.spec.ts",
  outputDir: "test-results",
  workers: 1,
  forbidOnly: true,
  // The first installation fetches 300 MB, on a machine that others use too.
  timeout: 1_200_000,
  expect: { timeout: DEADLINE_MS },
  reporter: [["list"], ["../../e2e/failures.ts"]],
  use: {
    launchOptions: {
      ...(CHROMIUM === undefined ? {} : { executablePath: CHROMIUM }),
      args: ["--no-sandbox", "--disable-background-networking", "--no-first-run"],
    },
  },
});
