/**
 * pvwire/elements: custom elements for pages without a framework, `<pv-value>`, `<pv-input>`,
 * `<pv-plot>` and `<pv-display>`, and `<pv-relay>` for the relay's address. Importing the module
 * defines them.
 */

import { PvDisplay, PvInput, PvPlot, PvRelay, PvValue } from "./elements.js";

export * from "../index.js";
export { PvDisplay, PvInput, PvPlot, PvRelay, PvValue };

declare global {
  interface HTMLElementTagNameMap {
    "pv-relay": PvRelay;
    "pv-value": PvValue;
    "pv-input": PvInput;
    "pv-plot": PvPlot;
    "pv-display": PvDisplay;
  }
}

const ELEMENTS = {
  "pv-relay": PvRelay,
  "pv-value": PvValue,
  "pv-input": PvInput,
  "pv-plot": PvPlot,
  "pv-display": PvDisplay,
} as const;

// Not on a server, and only once if a page loads two copies of this module.
if (typeof customElements === "object") {
  for (const [tag, element] of Object.entries(ELEMENTS)) {
    if (customElements.get(tag) === undefined) customElements.define(tag, element);
  }
}
