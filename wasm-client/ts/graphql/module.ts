/** Loads the module that plans and carries out documents, with the first of them. */

import { initSync, introspect, type InitOutput } from "../../pkg/pvwire_graphql.js";
import { Lazy } from "../lazy.js";
import { Loader } from "../store/loader.js";
import type { WasmSource } from "../types.js";

export { Operation } from "../../pkg/pvwire_graphql.js";

const loader = new Loader<InitOutput>(
  initSync,
  () => new URL("../../pkg/pvwire_graphql_bg.wasm", import.meta.url),
);

export const loadGraphql = (source: WasmSource | Promise<WasmSource> | undefined): Promise<void> =>
  loader.load(source);

const sdl = new Lazy(() => import("../../pkg/pvwire_sdl.js"));

/**
 * The value of the field `__schema`, or of `__type` with this name. Only when the module is loaded.
 * Few pages ask for it, so that the schema's text is loaded only now.
 */
export async function introspected(
  typeName: string | undefined,
  selection: string,
): Promise<unknown> {
  const { schemaSdl } = await sdl.load();
  return JSON.parse(introspect(schemaSdl, typeName, selection));
}
