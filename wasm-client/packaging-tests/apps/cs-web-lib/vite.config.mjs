import { defineConfig } from "vite";

export default defineConfig({
  // cs-web-lib reads its settings from here, if they aren't given to `store`.
  define: { "process.env": {} },
  build: { rollupOptions: { input: ["index.html", "pvws.html"] } },
});
