/** For webpack and for Rspack. Nothing is about WebAssembly: the package needs no configuration. */

import path from "node:path";
import process from "node:process";

export default {
  mode: "production",
  entry: "./src/main.js",
  output: { path: path.resolve(process.env.SITE) },
};
