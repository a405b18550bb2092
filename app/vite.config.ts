/**
 * Builds the app as the relay contains it: names of files change with their content, each has a compressed copy, and
 * all addresses are relative. Preact is in React's place, in a fifth of its bytes. `npm run dev` proxies what the relay serves.
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** The relay's address on this machine; its default unless the environment sets another. */
const relayPort = process.env.PVWIRE_RELAY_PORT ?? "8080";

const relay = {
  target: `http://127.0.0.1:${relayPort}`,
  // The relay compares Origin with Host: Host must stay the page's.
  changeOrigin: false,
};

const server = {
  host: "127.0.0.1",
  proxy: {
    "/ws": { ...relay, ws: true },
    "/status": relay,
    "/pv": relay,
    "/saved": relay,
    "/screens": relay,
    "/app.json": relay,
  },
};

const PACKED = /\.(?:css|js|wasm)$/;

/** Writes a compressed copy of each file that is worth it. */
const packed: Plugin = {
  name: "packed",
  apply: "build",
  writeBundle({ dir = "dist" }) {
    for (const name of readdirSync(dir, { encoding: "utf8", recursive: true })) {
      if (!PACKED.test(name)) continue;
      const file = path.join(dir, name);
      writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
    }
  },
};

/** The languages of the app: files of their texts. */
const LANGUAGES = readdirSync(path.join(import.meta.dirname, "public/languages")).map((name) =>
  path.basename(name, ".json"),
);

export default defineConfig({
  // Behind a proxy the relay may be at a path.
  base: "./",
  plugins: [react(), packed],
  resolve: {
    alias: [
      { find: /^react$/, replacement: "preact/compat" },
      { find: /^react-dom\/client$/, replacement: "preact/compat/client" },
      { find: /^react\/jsx-(dev-)?runtime$/, replacement: "preact/jsx-runtime" },
    ],
    dedupe: ["preact"],
  },
  define: { LANGUAGES: JSON.stringify(LANGUAGES) },
  build: { assetsDir: "app", assetsInlineLimit: 0, chunkSizeWarningLimit: 800 },
  server,
  preview: server,
});
