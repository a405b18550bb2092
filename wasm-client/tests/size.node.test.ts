/** Limits for the compressed size of each entry. */

import { expect, it } from "vitest";

import { bundle as bundled, codeOf, weigh } from "./weight.js";

const bundle = async (entry: string) => await bundled(new URL(entry, import.meta.url).pathname);

const MAX_GZIP_BYTES = 16.5 * 1024;

/** What `pvwire/graphql` may add, its WebAssembly module aside. */
const MAX_GRAPHQL_GZIP_BYTES = 6.6 * 1024;

/** What is fetched when the first large value comes, its worker aside, with the connection, or with the first `get`. */
const MAX_LAZY_GZIP_BYTES = 2.25 * 1024;

/** What formulas and `loc://` PVs load with the first of them, their WebAssembly module aside. */
const MAX_PAGE_GZIP_BYTES = 5 * 1024;

/** What `pvwire/worker` may weigh in the page, and in the worker, which reads large values too. */
const MAX_WORKER_PAGE_GZIP_BYTES = 2 * 1024;
const MAX_WORKER_GZIP_BYTES = 3.75 * 1024;

/** What `pvwire/react` may add, and how much `pvwire/widgets` is beside the client, React and uPlot. */
const MAX_REACT_GZIP_BYTES = 3 * 1024;
const MAX_WIDGETS_GZIP_BYTES = 14 * 1024;

/** What `pvwire/latency` may add. */
const MAX_LATENCY_GZIP_BYTES = 2 * 1024;

it("is at most 16.5 KB of JavaScript plus the WebAssembly module", async () => {
  const { core, lazy } = await bundle("../ts/index.ts");
  expect(codeOf(core)).toContain("pvwire.v1");
  expect(codeOf(core)).toContain("pvwire_wasm_bg.wasm");
  expect(weigh(core)).toBeLessThanOrEqual(MAX_GZIP_BYTES);
  // Large values, what is read once, puts and calls, and PVs of the page itself.
  expect(lazy).toHaveLength(4);
  expect(codeOf(lazy)).toContain("large_worker");
  for (const part of lazy) {
    const isPage = codeOf([part]).includes("pvwire_page_bg.wasm");
    expect(weigh([part])).toBeLessThanOrEqual(isPage ? MAX_PAGE_GZIP_BYTES : MAX_LAZY_GZIP_BYTES);
  }
  console.log(`JavaScript: ${String(weigh(core))} bytes compressed`);
}, 30_000);

it("adds at most 6.6 KB for GraphQL, the schema's text included", async () => {
  const { core, lazy } = await bundle("../ts/graphql/index.ts");
  const bytes = weigh(core) - weigh((await bundle("../ts/index.ts")).core);
  expect(bytes).toBeLessThanOrEqual(MAX_GRAPHQL_GZIP_BYTES);
  expect(codeOf(core)).toContain("pvwire_graphql_bg.wasm");
  expect(lazy).toHaveLength(4);
  console.log(`GraphQL: ${String(bytes)} bytes more, ${String(weigh(lazy))} on demand`);
}, 30_000);

it("adds at most 2 KB for latency", async () => {
  const core = weigh((await bundle("../ts/index.ts")).core);
  const latency = weigh((await bundle("../ts/latency/index.ts")).core);
  expect(latency - core).toBeLessThanOrEqual(MAX_LATENCY_GZIP_BYTES);
  console.log(`Latency: ${String(latency - core)} bytes more`);
}, 30_000);

it("adds at most 2 KB for workers, and 3.75 KB in the worker", async () => {
  const page = weigh((await bundle("../ts/worker/index.ts")).core);
  const worker = weigh((await bundle("../ts/worker/socket_worker.ts")).core);
  expect(page).toBeLessThanOrEqual(MAX_WORKER_PAGE_GZIP_BYTES);
  expect(worker).toBeLessThanOrEqual(MAX_WORKER_GZIP_BYTES);
  console.log(`Worker: ${String(page)} bytes in the page, ${String(worker)} in the worker`);
}, 30_000);

it("adds at most 3 KB for React, and 14 KB for all widgets", async () => {
  const core = weigh((await bundle("../ts/index.ts")).core);
  const react = weigh((await bundle("../ts/react/index.ts")).core);
  const widgets = weigh((await bundle("../ts/widgets/index.ts")).core);
  expect(react - core).toBeLessThanOrEqual(MAX_REACT_GZIP_BYTES);
  expect(widgets).toBeLessThanOrEqual(MAX_WIDGETS_GZIP_BYTES);
  console.log(`React: ${String(react - core)} bytes more, widgets: ${String(widgets)}`);
}, 30_000);
