/** Rollup finds packages by a plugin. */

import process from "node:process";

import resolve from "@rollup/plugin-node-resolve";

export default {
  input: { main: "src/with_address.js" },
  output: { dir: process.env.SITE, format: "es" },
  plugins: [resolve({ browser: true })],
};
