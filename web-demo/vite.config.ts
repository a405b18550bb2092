/** Builds and serves the page, with `/ws` passed on to the relay, so that all is one origin. */

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Where the relay listens on this machine; its own default unless the environment says otherwise. */
const relayPort = process.env.PVWIRE_RELAY_PORT ?? "8080";

/**
 * Where `make demo` accepts the page's requests to break things; without it there is no such
 * address.
 */
const controlPort = process.env.PVWIRE_DEMO_CONTROL_PORT;

const relay = {
  target: `http://127.0.0.1:${relayPort}`,
  // The relay compares Origin with Host: Host must stay the page's.
  changeOrigin: false,
};

const server = {
  host: "127.0.0.1",
  proxy: {
    "/ws": { ...relay, ws: true },
    // What the relay says of itself, for the health page.
    "/relay/status": { ...relay, rewrite: () => "/status" },
    ...(controlPort === undefined
      ? {}
      : { "/demo": { target: `http://127.0.0.1:${controlPort}`, changeOrigin: false } }),
  },
};

export default defineConfig({
  plugins: [react()],
  // Only for GraphiQL, loaded by the console.
  build: { chunkSizeWarningLimit: 800 },
  server,
  preview: server,
});
