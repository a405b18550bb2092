/** Bytes that a page loads when it imports the package. */

import { readFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";

import { ROOT } from "../../testbed/ts/paths";
import { bundle, weigh } from "../../wasm-client/tests/weight";
import type { Measurement } from "./measure";
import type { Round } from "./report";

const PACKAGE = path.join(ROOT, "wasm-client");

const bytesOf = async (entry: string): Promise<number> =>
  weigh((await bundle(path.join(PACKAGE, "ts", entry, "index.ts"))).core);

const kibOfModule = (name: string): number =>
  gzipSync(readFileSync(path.join(PACKAGE, `pkg/${name}_bg.wasm`)), { level: 9 }).length / 1024;

export const packageSize: Measurement = {
  name: "package",
  question: "How much does a page load that imports the package?",
  about: "Minified by Vite and compressed by gzip; what is loaded on demand only is not counted.",
  settings: {},
  mostRounds: 1,
  labels: {
    wasm_kb: ["WebAssembly", "KiB"],
    js_kb: ["JavaScript of `pvwire`", "KiB"],
    react_kb: ["`pvwire/react` adds", "KiB"],
    graphql_kb: ["JavaScript that `pvwire/graphql` adds", "KiB"],
    graphql_wasm_kb: ["WebAssembly that it loads with the first document", "KiB"],
    widgets_kb: ["`pvwire/widgets`, beside React and uPlot", "KiB"],
  },
  points: [
    {
      label: "sizes",
      measure: async (): Promise<Round> => {
        const core = await bytesOf("");
        return {
          wasm_kb: kibOfModule("pvwire_wasm"),
          js_kb: core / 1024,
          react_kb: ((await bytesOf("react")) - core) / 1024,
          graphql_kb: ((await bytesOf("graphql")) - core) / 1024,
          graphql_wasm_kb: kibOfModule("pvwire_graphql"),
          widgets_kb: (await bytesOf("widgets")) / 1024,
        };
      },
    },
  ],
};
