/** How much does a page load that imports this package? */

import { gzipSync } from "node:zlib";

import { build } from "vite";
import { expect, it } from "vitest";

const MAX_GZIP_BYTES = 15 * 1024;

it("is at most 15 KB of JavaScript, beside the WebAssembly module", async () => {
  const result = await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      assetsInlineLimit: 0,
      rolldownOptions: {
        input: new URL("../ts/index.ts", import.meta.url).pathname,
        preserveEntrySignatures: "strict",
      },
    },
  });
  const outputs = (Array.isArray(result) ? result : [result]).flatMap((built) =>
    "output" in built ? built.output : [],
  );
  const code = outputs.map((file) => (file.type === "chunk" ? file.code : "")).join("");
  const bytes = gzipSync(code, { level: 9 }).length;
  expect(code).toContain("pvwire.v1");
  expect(outputs.some((file) => file.fileName.endsWith(".wasm"))).toBe(true);
  expect(bytes).toBeLessThanOrEqual(MAX_GZIP_BYTES);
  console.log(`JavaScript: ${String(bytes)} bytes compressed`);
}, 30_000);
