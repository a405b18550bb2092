/** Runs the stories, two at a time in Chromium; each starts its own IOC and relay. */

import { defineConfig } from "@playwright/test";

import { CHROMIUM } from "../testbed/ts/chromium";
import { DEADLINE_MS } from "../testbed/ts/deadline";
import { FONTS } from "../testbed/ts/paths";

export default defineConfig({
  testDir: "tests",
  globalSetup: "./global_setup.ts",
  outputDir: "test-results",
  workers: 2,
  forbidOnly: true,
  timeout: 6 * DEADLINE_MS,
  expect: {
    timeout: DEADLINE_MS,
  },
  // The same fonts on all machines, from fonts.conf.
  snapshotPathTemplate: "pictures/{arg}{ext}",
  reporter: [["list"], ["./failures.ts"]],
  use: {
    viewport: { width: 1440, height: 950 },
    // Tracing a page that changes ten times a second makes its test take four times as long.
    trace: process.env.PVWIRE_TRACE === undefined ? "off" : "retain-on-failure",
    screenshot: "only-on-failure",
    launchOptions: {
      ...(CHROMIUM === undefined ? {} : { executablePath: CHROMIUM }),
      env: { ...(process.env as Record<string, string>), FONTCONFIG_FILE: FONTS },
      args: [
        "--no-sandbox",
        "--font-render-hinting=none",
        "--disable-lcd-text",
        "--disable-background-networking",
        "--disable-quic",
        "--no-first-run",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
  projects: [
    { name: "stories", testMatch: "*.spec.ts" },
    { name: "screenshots", testMatch: "*.shots.ts" },
  ],
});
