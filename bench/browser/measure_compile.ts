/** Time that a selection takes to be compiled. */

import type { Measurement } from "./measure";

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
