/** Runs `bench.ts`, which Node 20 can't by itself. */

import path from "node:path";
import process from "node:process";

import { runnerImport } from "vite";

// Otherwise Vite's import of the file below makes every build one for development, React's too.
process.env.NODE_ENV = "production";

const { module } = await runnerImport(path.join(import.meta.dirname, "bench.ts"));
process.exitCode = await module.main(process.argv.slice(2));
