/** The entry of the app: one client for the whole page. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createClient } from "pvwire";
import { PvProvider } from "pvwire/react";

import { App } from "./App";
import { guard } from "./confirm/guard";
import { languageOf, parseRoute } from "./route";
import "pvwire/widgets.css";
import "./style.css";

// Behind a proxy the relay may be at a path.
const client = createClient({ url: new URL("ws", window.location.href.replace(/#.*$/s, "")) });
guard(client);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no element with the id root");

const show = (): void => {
  createRoot(root).render(
    <StrictMode>
      <PvProvider client={client}>
        <App />
      </PvProvider>
    </StrictMode>,
  );
};
const language = languageOf(navigator.languages, parseRoute(window.location.hash));
if (language === "en") show();
// A file that can't be read leaves the app in English.
else import("./language").then(({ setLanguage }) => setLanguage(language)).then(show, show);
