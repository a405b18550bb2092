/** What a page spends before it shows anything: bytes that it loads, and time until a selection is compiled. */

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

/** What the page has; runs there. */
declare const measurements: NonNullable<Window["measurements"]>;

export const compiling: Measurement = {
  name: "browser-compile",
  question: "How long does it take to compile a selection?",
  about:
    "Ten selections of three to ten fields, each time with another name in it, so that none is known." +
    " `client.pv(name, selection)` with a loaded module, and the module's part alone. Least of 10 passes," +
    " median over the selections.",
  settings: {},
  labels: {
    compile_us: ["a selection, median", "µs"],
    compile_longest_us: ["a selection, longest", "µs"],
    compile_wasm_us: ["in WebAssembly, median", "µs"],
    known_us: ["a PV with a selection that is known", "µs"],
  },
  points: [
    {
      label: "selections",
      measure: async ({ open, relayUrl }) =>
        await open(async (page) => {
          const times = await page.evaluate(
            async (url) => await measurements().compileTimes(url),
            relayUrl,
          );
          return { ...times };
        }),
    },
  ],
};
