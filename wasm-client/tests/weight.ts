/** Compressed size of an entry of the package, as it is bundled for a page. */

import { gzipSync } from "node:zlib";

import { build } from "vite";

type Outputs = { fileName: string; type: string; code?: string; isDynamicEntry?: boolean }[];

const PEERS = ["react", "react/jsx-runtime", "react/jsx-dev-runtime", "uplot"];

/**
 * The package's own code, in one piece but for what is loaded on demand. As for a server, because a
 * bundle for pages also has Vite's own loader, once for a whole app.
 */
export async function bundle(entry: string): Promise<{ core: Outputs; lazy: Outputs }> {
  const result = await build({
    configFile: false,
    logLevel: "silent",
    // As a page is built, also where NODE_ENV is "test".
    oxc: { jsx: { runtime: "automatic", development: false } },
    build: {
      write: false,
      ssr: true,
      minify: true,
      rolldownOptions: {
        input: entry,
        external: PEERS,
        preserveEntrySignatures: "strict",
      },
    },
  });
  const outputs = (Array.isArray(result) ? result : [result]).flatMap((built) =>
    "output" in built ? (built.output as Outputs) : [],
  );
  const chunks = outputs.filter(({ type }) => type === "chunk");
  return {
    core: chunks.filter((file) => file.isDynamicEntry !== true),
    lazy: chunks.filter((file) => file.isDynamicEntry === true),
  };
}

export const codeOf = (outputs: Outputs): string => outputs.map(({ code }) => code).join("");
export const weigh = (outputs: Outputs): number => gzipSync(codeOf(outputs), { level: 9 }).length;
