/** Passes the page's `/ws` on to the relay, so that both have one origin. */

import { defineConfig } from "vite";

export default defineConfig({
  server: { proxy: { "/ws": { target: "http://127.0.0.1:8080", ws: true } } },
});
