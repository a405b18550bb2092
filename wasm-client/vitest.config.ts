/** Runs the same tests in Node and in Chromium. */

import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";

import { CHROMIUM } from "../testbed/ts/chromium.ts";
import { DEADLINE_MS } from "../testbed/ts/deadline.ts";

// vitest lists failures with it, and Node 20 lacks it.
if (!("groupBy" in Map)) {
  const groupBy = <K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> => {
    const groups = new Map<K, T[]>();
    for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
    return groups;
  };
  Object.assign(Map, { groupBy });
}

/** A test waits for several things, one after the other. */
const deadlines = {
  testTimeout: 2 * DEADLINE_MS,
  hookTimeout: 2 * DEADLINE_MS,
  expect: { poll: { timeout: DEADLINE_MS } },
};

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...deadlines,
          name: "node",
          environment: "node",
          include: ["tests/*.test.ts"],
          exclude: ["tests/*.browser.test.ts"],
        },
      },
      {
        // Golden frames lie beside this package.
        server: { fs: { allow: [".."] } },
        // Named here, so that no test is interrupted by a reload when one is found.
        optimizeDeps: {
          include: [
            "numcodecs/blosc",
            "react",
            "react-dom",
            "react-dom/client",
            "react-dom/server",
            "uplot",
          ],
        },
        test: {
          ...deadlines,
          name: "browser",
          include: ["tests/*.test.ts", "tests/*.test.tsx"],
          exclude: ["tests/*.node.test.ts"],
          browser: {
            enabled: true,
            headless: true,
            screenshotFailures: false,
            provider: playwright({
              launchOptions: {
                ...(CHROMIUM === undefined ? {} : { executablePath: CHROMIUM }),
                // WebGL without a graphics card, for the test of what is painted by one.
                args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"],
              },
            }),
            instances: [{ browser: "chromium" }],
          },
        },
      },
    ],
  },
});
