/** Nothing about WebAssembly stands here: the package needs no configuration. */

import webpack from "webpack";

export default {
  entry: "./src/index.js",
  plugins: [new webpack.EnvironmentPlugin(["RELAY"])],
};
