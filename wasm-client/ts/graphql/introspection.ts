/** Loads the module that knows the whole schema, with the first document that asks for it. */

import { initSync, introspect, type InitOutput } from "../../pkg/pvwire_introspection.js";
import { Loader } from "../store/loader.js";
import type { WasmSource } from "../types.js";

const loader = new Loader<InitOutput>(
  initSync,
  () => new URL("../../pkg/pvwire_introspection_bg.wasm", import.meta.url),
);

export const loadIntrospection = (
  source: WasmSource | Promise<WasmSource> | undefined,
): Promise<void> => loader.load(source);

/** The value of the field `__schema`, or of `__type` with this name. */
export async function introspected(
  typeName: string | undefined,
  selection: string,
  source: WasmSource | Promise<WasmSource> | undefined,
): Promise<unknown> {
  await loadIntrospection(source);
  return JSON.parse(introspect(typeName, selection)) as unknown;
}
