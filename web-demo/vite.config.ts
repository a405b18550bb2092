/** How is the page built and served? With `/ws` passed on to the relay, so that all is one origin. */

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Where the relay listens on this machine; its own default unless the environment says otherwise. */
const relayPort = process.env.PVWIRE_RELAY_PORT ?? "8080";

const server = {
  host: "127.0.0.1",
  proxy: {
    "/ws": {
      target: `http://127.0.0.1:${relayPort}`,
      ws: true,
      // The relay compares Origin with Host: Host must stay the page's.
      changeOrigin: false,
    },
  },
};

export default defineConfig({
  plugins: [react()],
  server,
  preview: server,
});
