/** Loads the module that plans and carries out documents, with the first of them. */

import { initSync, introspect, type InitOutput } from "../../pkg/pvwire_graphql.js";
import { Loader } from "../store/loader.js";
import type { WasmSource } from "../types.js";

export { Operation } from "../../pkg/pvwire_graphql.js";

const loader = new Loader<InitOutput>(
  initSync,
  () => new URL("../../pkg/pvwire_graphql_bg.wasm", import.meta.url),
);

export const loadGraphql = (source: WasmSource | Promise<WasmSource> | undefined): Promise<void> =>
  loader.load(source);

/** The value of the field `__schema`, or of `__type` with this name. Only when the module is loaded. */
export const introspected = (typeName: string | undefined, selection: string): unknown =>
  JSON.parse(introspect(typeName, selection));
