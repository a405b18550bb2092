/** How much does a page load that imports this package? */

import { gzipSync } from "node:zlib";

import { build } from "vite";
import { expect, it } from "vitest";

const MAX_GZIP_BYTES = 15 * 1024;

/** What `pvwire/graphql` may add, without what only introspection loads. */
const MAX_GRAPHQL_GZIP_BYTES = 8 * 1024;

type Outputs = { fileName: string; type: string; code?: string; isDynamicEntry?: boolean }[];

async function bundle(entry: string): Promise<Outputs> {
  const result = await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      assetsInlineLimit: 0,
      rolldownOptions: {
        input: new URL(entry, import.meta.url).pathname,
        preserveEntrySignatures: "strict",
      },
    },
  });
  const outputs = (Array.isArray(result) ? result : [result]).flatMap((built) =>
    "output" in built ? (built.output as Outputs) : [],
  );
  return outputs;
}

const weigh = (outputs: Outputs): number =>
  gzipSync(outputs.map(({ code, type }) => (type === "chunk" ? code : "")).join(""), { level: 9 })
    .length;

it("is at most 15 KB of JavaScript, beside the WebAssembly module", async () => {
  const outputs = await bundle("../ts/index.ts");
  const bytes = weigh(outputs);
  expect(outputs.map(({ code }) => code).join("")).toContain("pvwire.v1");
  expect(outputs.some((file) => file.fileName.endsWith(".wasm"))).toBe(true);
  expect(bytes).toBeLessThanOrEqual(MAX_GZIP_BYTES);
  console.log(`JavaScript: ${String(bytes)} bytes compressed`);
}, 30_000);

it("adds at most 8 KB for GraphQL, the schema's text included", async () => {
  const all = await bundle("../ts/graphql/index.ts");
  const lazy = all.filter((file) => file.isDynamicEntry === true);
  const bytes = weigh(all) - weigh(lazy) - weigh(await bundle("../ts/index.ts"));
  expect(lazy).toHaveLength(1);
  expect(bytes).toBeLessThanOrEqual(MAX_GRAPHQL_GZIP_BYTES);
  console.log(`GraphQL: ${String(bytes)} bytes more, ${String(weigh(lazy))} for introspection`);
}, 30_000);
