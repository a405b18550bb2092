/** The entry of the page: one client for the whole page, which `PvProvider` provides. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createClient, type PvClient } from "pvwire";
import { PvProvider } from "pvwire/react";

import { App } from "./App";
import { applyStoredTheme } from "./theme";
import "pvwire/widgets.css";
import "./style.css";

declare global {
  interface Window {
    /** For the console and the end-to-end tests: the client that the page itself uses. */
    __pvwireDemo?: { readonly client: PvClient };
  }
}

applyStoredTheme();

const client = createClient({ url: "/ws" });
window.__pvwireDemo = { client };

const prefix =
  new URLSearchParams(window.location.search).get("prefix") ??
  import.meta.env.VITE_PV_PREFIX ??
  "DEMO";

const root = document.getElementById("root");
if (root === null) {
  throw new Error("index.html has no element with the id root");
}
createRoot(root).render(
  <StrictMode>
    <PvProvider client={client}>
      <App client={client} prefix={prefix} />
    </PvProvider>
  </StrictMode>,
);
