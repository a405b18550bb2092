/** The build: limits for the compressed size of each entry, and that it does nothing when nothing changed. */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync, utimesSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";

import { expect, it } from "vitest";

import { bundle as bundled, codeOf, weigh } from "./weight.js";

const bundle = async (entry: string) => await bundled(new URL(entry, import.meta.url).pathname);

const MAX_GZIP_BYTES = 16.5 * 1024;

/** What `pvwire/graphql` may add, without its WebAssembly module. */
const MAX_GRAPHQL_GZIP_BYTES = 6.6 * 1024;

/** What is fetched when the first large value comes, without its worker, with the connection, or with the first `get`. */
const MAX_LAZY_GZIP_BYTES = 2.25 * 1024;

/** What formulas and `loc://` PVs, and archived samples, load with the first of them, without their WebAssembly module. */
const MAX_PAGE_GZIP_BYTES = 5 * 1024;

/** What `pvwire/worker` may weigh in the page, and in the worker, which reads large values too. */
const MAX_WORKER_PAGE_GZIP_BYTES = 2 * 1024;
const MAX_WORKER_GZIP_BYTES = 3.8 * 1024;

/** What `pvwire/react` may add, and how much `pvwire/widgets` is beside the client, React and uPlot. */
const MAX_REACT_GZIP_BYTES = 3 * 1024;
const MAX_WIDGETS_GZIP_BYTES = 13.7 * 1024;

/** What `pvwire/display` may be beside the client, React and the widgets' style sheet; plots are loaded on demand. */
const MAX_DISPLAY_GZIP_BYTES = 60 * 1024;

/** What a display with hundreds of widgets loads besides, and one with an image that the detector has compressed. */
const MAX_PAINTING_GZIP_BYTES = 2.75 * 1024;
const MAX_CODECS_GZIP_BYTES = 2 * 1024;

/** What the first display with a dial or a clock loads besides. */
const MAX_DIALS_GZIP_BYTES = 4 * 1024;

/** What the first display of BOY loads besides. */
const MAX_BOY_GZIP_BYTES = 8.5 * 1024;

/** A plain page with `<pv-value>`: all that it loads, the WebAssembly module included. */
const MAX_PLAIN_PAGE_GZIP_BYTES = 90 * 1024;

/** What `pvwire/latency` may add. */
const MAX_LATENCY_GZIP_BYTES = 2 * 1024;

/** What `pvwire/missed` may add. */
const MAX_MISSED_GZIP_BYTES = 3 * 1024;

it("is at most 16.5 KB of JavaScript plus the WebAssembly module", async () => {
  const { core, lazy } = await bundle("../ts/index.ts");
  expect(codeOf(core)).toContain("pvwire.v1");
  expect(codeOf(core)).toContain("pvwire_wasm_bg.wasm");
  expect(weigh(core)).toBeLessThanOrEqual(MAX_GZIP_BYTES);
  // Large values, what is read once, puts and calls, questions, the past, that of archivers, and PVs of the page itself.
  expect(lazy).toHaveLength(7);
  expect(codeOf(lazy)).toContain("large_worker");
  for (const part of lazy) {
    const hasModule = /pvwire_(page|archive)_bg\.wasm/.test(codeOf([part]));
    const most = hasModule ? MAX_PAGE_GZIP_BYTES : MAX_LAZY_GZIP_BYTES;
    expect(weigh([part])).toBeLessThanOrEqual(most);
  }
  console.log(`JavaScript: ${String(weigh(core))} bytes compressed`);
});

it("adds at most 6.6 KB for GraphQL, the schema's text included", async () => {
  const { core, lazy } = await bundle("../ts/graphql/index.ts");
  const bytes = weigh(core) - weigh((await bundle("../ts/index.ts")).core);
  expect(bytes).toBeLessThanOrEqual(MAX_GRAPHQL_GZIP_BYTES);
  expect(codeOf(core)).toContain("pvwire_graphql_bg.wasm");
  expect(lazy).toHaveLength(7);
  console.log(`GraphQL: ${String(bytes)} bytes more, ${String(weigh(lazy))} on demand`);
});

it("adds at most 2 KB for latency", async () => {
  const core = weigh((await bundle("../ts/index.ts")).core);
  const latency = weigh((await bundle("../ts/latency/index.ts")).core);
  expect(latency - core).toBeLessThanOrEqual(MAX_LATENCY_GZIP_BYTES);
  console.log(`Latency: ${String(latency - core)} bytes more`);
});

it("adds at most 3 KB for missed updates", async () => {
  const core = weigh((await bundle("../ts/index.ts")).core);
  const missed = weigh((await bundle("../ts/missed/index.ts")).core);
  expect(missed - core).toBeLessThanOrEqual(MAX_MISSED_GZIP_BYTES);
  console.log(`Missed updates: ${String(missed - core)} bytes more`);
});

it("adds at most 2 KB for workers, and 3.8 KB in the worker", async () => {
  const page = weigh((await bundle("../ts/worker/index.ts")).core);
  const worker = weigh((await bundle("../ts/worker/socket_worker.ts")).core);
  expect(page).toBeLessThanOrEqual(MAX_WORKER_PAGE_GZIP_BYTES);
  expect(worker).toBeLessThanOrEqual(MAX_WORKER_GZIP_BYTES);
  console.log(`Worker: ${String(page)} bytes in the page, ${String(worker)} in the worker`);
});

it("adds at most 3 KB for React, and 13.7 KB for all widgets", async () => {
  const core = weigh((await bundle("../ts/index.ts")).core);
  const react = weigh((await bundle("../ts/react/index.ts")).core);
  const widgets = weigh((await bundle("../ts/widgets/index.ts")).core);
  expect(react - core).toBeLessThanOrEqual(MAX_REACT_GZIP_BYTES);
  expect(widgets).toBeLessThanOrEqual(MAX_WIDGETS_GZIP_BYTES);
  console.log(`React: ${String(react - core)} bytes more, widgets: ${String(widgets)}`);
});

it("adds at most 60 KiB for displays, and loads their plots on demand", async () => {
  const { core, lazy } = await bundle("../ts/display/index.ts");
  const seldom = [
    ["pvwire-display-canvases", MAX_PAINTING_GZIP_BYTES],
    ["bslz4", MAX_CODECS_GZIP_BYTES],
    ["pvwire-display-knob", MAX_DIALS_GZIP_BYTES],
    ["org.csstudio.opibuilder", MAX_BOY_GZIP_BYTES],
  ] as const;
  const ofMany = lazy.filter((part) => !seldom.some(([text]) => codeOf([part]).includes(text)));
  expect(ofMany).toHaveLength(lazy.length - seldom.length);
  const bytes = weigh([...core, ...ofMany]);
  expect(bytes).toBeLessThanOrEqual(MAX_DISPLAY_GZIP_BYTES);
  for (const [text, most] of seldom) {
    const part = lazy.filter((each) => codeOf([each]).includes(text));
    expect(weigh(part), text).toBeLessThanOrEqual(most);
  }
  // The lazy part draws the curves.
  expect(codeOf(lazy)).toContain("setLineDash");
  expect(codeOf(core)).not.toContain("setLineDash");
  console.log(`Displays: ${String(bytes)} bytes, ${String(weigh(lazy))} of all on demand`);
});

it("is at most 90 KiB, with the WebAssembly module, on a plain page with <pv-value>", () => {
  const sizeOf = (file: string): number =>
    gzipSync(readFileSync(new URL(`../dist/${file}`, import.meta.url)), { level: 9 }).length;
  const bytes = sizeOf("pvwire.js") + sizeOf("pvwire_wasm_bg.wasm");
  expect(bytes).toBeLessThanOrEqual(MAX_PLAIN_PAGE_GZIP_BYTES);
  // Nothing else is imported before it is needed.
  const code = readFileSync(new URL("../dist/pvwire.js", import.meta.url), "utf8");
  expect(code).not.toMatch(/\bfrom\s*["'`]|^import\s*["'`]/m);
  // What the package's page says of it.
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  expect(readme).toContain("A page with `<pv-value>` loads less than 90 KiB (gzip)");
  console.log(`Plain page: ${String(bytes)} bytes compressed`);
});

const PACKAGE = path.resolve(import.meta.dirname, "..");
const LICENSE = path.join(PACKAGE, "dist/LICENSE");
const INDEX = path.join(PACKAGE, "dist/index.js");

function build(): void {
  execFileSync(process.execPath, ["build.js"], { cwd: PACKAGE });
}

it("a build with nothing changed leaves dist alone", { timeout: 120_000 }, () => {
  build();
  const long = new Date(2001, 1, 1);
  utimesSync(INDEX, long, long);
  build();
  expect(statSync(INDEX).mtimeMs).toBe(long.getTime());
  expect(existsSync(LICENSE)).toBe(true);
});
