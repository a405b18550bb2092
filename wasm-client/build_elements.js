/**
 * Builds dist/pvwire.js from dist/elements/: custom elements for pages without a bundler, with
 * Preact in place of React.
 */

import { readdirSync, rmSync } from "node:fs";
import path from "node:path";

import { minify } from "terser";
import { build } from "vite";

/** What a page with values needs is in one file; these parts are loaded on demand. */
const ON_DEMAND = {
  "elements/display": "display",
  "elements/input": "input",
  "elements/plot": "plot",
  "pv/of_page": "page",
  "client/reads": "get",
  "link/extras": "extras",
  "link/questions": "names",
  "history/archive": "archive",
  "history/pages": "history",
};

const onDemand = (id) =>
  Object.keys(ON_DEMAND).find((part) => id?.endsWith(`/dist/${part}.js`)) !== undefined;

/** Imports all other modules at once, although the package loads them on demand. */
const inFewFiles = {
  name: "in-few-files",
  transform(code, id) {
    const imports = [];
    const changed = code.replace(/\bimport\("(\.[^"]*|uplot)"\)/g, (whole, file) => {
      if (file.endsWith(".css?inline") || onDemand(path.resolve(path.dirname(id), file)))
        return whole;
      const name = `part${String(imports.length)}`;
      imports.push(`import * as ${name} from "${file}";\n`);
      return `Promise.resolve(${name})`;
    });
    return imports.length === 0 ? undefined : { code: imports.join("") + changed, map: null };
  },
};

/** Elements are in English: marks of texts would take the last bytes of their page. */
const inEnglish = {
  name: "in-english",
  transform: (code) => ({
    code: code
      .replace(/\bt ?`/g, "`")
      .replace(/^(?:import \{ t \}|export \{ setTexts, t \}) from "[./]*texts\.js";$/m, ""),
    map: null,
  }),
};

/** Displays use more of React than the other widgets, and have more of it than Preact's core. */
const withCompatibility = (react) => ({
  name: "with-compatibility",
  enforce: "pre",
  transform(code, id) {
    if (!/\/dist\/(?:display\/.*|elements\/display)\.js$/.test(id)) return undefined;
    return { code: code.replace(/\bfrom "react"/g, `from ${JSON.stringify(react)}`), map: null };
  },
});

/** Vite's loader of style sheets, which there are none to load. */
const withoutPreload = {
  name: "without-preload",
  enforce: "pre",
  load: (id) =>
    id.endsWith("vite/preload-helper.js")
      ? "export const __vitePreload = (load) => load();"
      : undefined,
};

/** After Vite's minifier Terser saves half a kilobyte more, compressed; alone each saves less. */
const minifiedTwice = {
  name: "minified-twice",
  async generateBundle(_, files) {
    for (const file of Object.values(files)) {
      if (file.type !== "chunk") continue;
      const { code } = await minify(file.code, {
        module: true,
        ecma: 2022,
        compress: { passes: 2 },
      });
      file.code = code;
    }
  },
};

const nameOf = ({ facadeModuleId, name }) =>
  Object.entries(ON_DEMAND).find(([part]) => facadeModuleId?.endsWith(`/${part}.js`))?.[1] ?? name;

/** Writes dist/pvwire.js and the files beside it, and leaves only the types in dist/elements/. */
export async function buildElements(folder) {
  const dist = path.join(folder, "dist");
  const elements = path.join(dist, "elements");
  await build({
    configFile: false,
    root: folder,
    // Addresses relative to the file.
    base: "./",
    logLevel: "warn",
    publicDir: false,
    plugins: [
      inEnglish,
      inFewFiles,
      withCompatibility(path.join(elements, "compatible.js")),
      withoutPreload,
      minifiedTwice,
    ],
    resolve: {
      alias: [
        { find: /^\.\.\/widgets\/css\//, replacement: path.join(folder, "ts/widgets/css/") },
        { find: /^react(-dom\/client)?$/, replacement: path.join(elements, "preact.js") },
        { find: /^react\/jsx-runtime$/, replacement: "preact/jsx-runtime" },
      ],
    },
    worker: {
      format: "es",
      rolldownOptions: { output: { entryFileNames: "pvwire-large.js" } },
    },
    build: {
      outDir: dist,
      emptyOutDir: false,
      target: "es2022",
      cssTarget: "esnext",
      assetsInlineLimit: 0,
      modulePreload: false,
      reportCompressedSize: false,
      license: { fileName: "pvwire-licenses.md" },
      rolldownOptions: {
        // Directives for React's servers, which mean nothing in a page.
        onwarn: (warning, warn) => {
          if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
        },
        input: { pvwire: path.join(elements, "index.js") },
        preserveEntrySignatures: "allow-extension",
        output: {
          entryFileNames: "[name].js",
          chunkFileNames: (chunk) => `pvwire-${nameOf(chunk)}.js`,
          assetFileNames: "[name][extname]",
        },
      },
    },
  });
  for (const file of readdirSync(elements)) {
    if (!file.endsWith(".d.ts") || /^(?:preact|compatible)\./.test(file))
      rmSync(path.join(elements, file));
  }
}
