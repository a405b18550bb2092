/**
 * Makes the script and the style sheet of the relay's page `/graphiql` from the npm packages of the lock file, and writes
 * them compressed into the relay's folder. With `--check` it compares them with the files there instead.
 *
 * The files are kept in the repository, so that cargo alone builds the relay.
 */

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { gunzipSync, gzipSync } from "node:zlib";

import { build } from "vite";

const ROOT = path.resolve(import.meta.dirname, "../..");
const TARGET = path.join(ROOT, "relay/src/http/server/coniql/graphiql");

/** The folder of the package that a module is from; undefined for modules of this folder. */
function packageOf(module) {
  const parts = module.split("/node_modules/");
  if (parts.length === 1) return undefined;
  const [scope, name] = parts.at(-1).split("/");
  const inside = scope.startsWith("@") ? `${scope}/${name}` : scope;
  return `${parts.slice(0, -1).join("/node_modules/")}/node_modules/${inside}`;
}

/** The licence of a package, with its text if the package has one. */
function licenceOf(folder) {
  const { name, version, license } = JSON.parse(
    readFileSync(path.join(folder, "package.json"), "utf8"),
  );
  const file = readdirSync(folder).find((each) => /^licen[cs]e/iu.test(each));
  const text =
    file === undefined ? "" : `\n\n${readFileSync(path.join(folder, file), "utf8").trim()}`;
  return `${name} ${version} (${license})${text}`;
}

/** Fonts in the style sheet are two thirds of it; the page uses those of the system. */
const withoutFonts = (css) => css.replace(/@font-face\s*\{[^}]*\}/gu, "");

async function made() {
  const { output } = await build({
    root: import.meta.dirname,
    configFile: false,
    logLevel: "error",
    mode: "production",
    define: { "process.env.NODE_ENV": '"production"' },
    build: {
      write: false,
      target: "es2022",
      cssCodeSplit: false,
      rollupOptions: {
        input: path.join(import.meta.dirname, "page.js"),
        output: { codeSplitting: false },
        onwarn() {
          // Directives for servers' components, which mean nothing here.
        },
      },
    },
  });
  const chunk = output.find((each) => each.type === "chunk");
  const style = output.find((each) => each.fileName.endsWith(".css"));
  if (output.length !== 2 || chunk === undefined || style === undefined)
    throw new Error(
      `expected a script and a style sheet, got ${output.map((each) => each.fileName).join(", ")}`,
    );
  const folders = new Set(
    chunk.moduleIds.map((each) => packageOf(each.replace(/^\0/u, ""))).filter(Boolean),
  );
  const licences = [...folders]
    .filter((each) => existsSync(path.join(each, "package.json")))
    .map(licenceOf);
  const notice = licences.toSorted().join("\n\n----\n\n").replaceAll("*/", "* /");
  const own = readFileSync(path.join(import.meta.dirname, "page.css"), "utf8");
  return [
    ["graphiql.js.gz", `/*!\n${notice}\n*/\n${chunk.code}`],
    ["graphiql.css.gz", `${withoutFonts(String(style.source))}\n${own}`],
  ];
}

let isCurrent = true;
for (const [name, text] of await made()) {
  const file = path.join(TARGET, name);
  if (process.argv.includes("--check")) {
    if (gunzipSync(readFileSync(file)).toString() === text) continue;
    process.stderr.write(
      `${path.relative(ROOT, file)} is not made from these packages: run npm run graphiql\n`,
    );
    isCurrent = false;
  } else {
    writeFileSync(file, gzipSync(text, { level: 9 }));
    process.stdout.write(
      `${name}: ${Math.round(text.length / 1_000)} kB, ${Math.round(readFileSync(file).length / 1_000)} kB compressed\n`,
    );
  }
}
process.exit(isCurrent ? 0 : 1);
