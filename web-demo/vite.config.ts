/** Builds and serves the page and proxies `/ws` to the relay, so that both have one origin. */

import react from "@vitejs/plugin-react";
import { createLogger, defineConfig } from "vite";

/** The relay's address on this machine; its default unless the environment sets another. */
const relayPort = process.env.PVWIRE_RELAY_PORT ?? "8080";

/**
 * The address at which `make demo` accepts the page's fault requests; undefined otherwise. A page that is built without
 * it has no buttons for them.
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
    // The relay's status, for the health page.
    "/relay/status": { ...relay, rewrite: () => "/status" },
    ...(controlPort === undefined
      ? {}
      : { "/demo": { target: `http://127.0.0.1:${controlPort}`, changeOrigin: false } }),
  },
};

/** A browser may close its connection at any moment, and the relay may be away: neither is worth a stack. */
const logger = createLogger(process.env.PVWIRE_DEMO_CONTROL_PORT === undefined ? "info" : "error");
const error = logger.error.bind(logger);
logger.error = (message, options) => {
  const code = (options?.error as NodeJS.ErrnoException | null | undefined)?.code ?? "";
  if (code === "ECONNRESET" || code === "EPIPE") return;
  if (code === "ECONNREFUSED")
    error(`the relay at ${relay.target} can't be reached`, { timestamp: true });
  else error(message, options);
};

export default defineConfig({
  plugins: [react()],
  customLogger: logger,
  define: { "import.meta.env.VITE_HAS_CONTROL": JSON.stringify(controlPort !== undefined) },
  // Only for GraphiQL, loaded by the console.
  build: { chunkSizeWarningLimit: 800 },
  server,
  preview: server,
});
