/** The frames that every client reads, from the schema's tests; in Node from disk, in a browser over HTTP. */

import messages from "../../schema/tests/golden.json";

export const inNode = typeof window === "undefined";

async function bytesOf(url: URL): Promise<ArrayBuffer> {
  if (!inNode) return (await fetch(url)).arrayBuffer();
  const { readFile } = await import("node:fs/promises");
  const bytes = await readFile(url);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
}

/** The text of a file. */
export const textOf = async (url: URL): Promise<string> =>
  new TextDecoder().decode(await bytesOf(url));

export type GoldenName = Exclude<keyof typeof messages, `request_${string}`>;

/** A frame's description, as far as the tests read it. */
export interface Described {
  tick: number;
  numbers: { id: number; timeNs: string; value: number | string }[];
  blobs: { id: number; text: string[]; count: number; data: number[]; type: string }[];
  alarms: { row: number; severity: number; status: number }[];
}

const frames = messages as unknown as Record<GoldenName, { bytes: string[]; decoded: Described }>;

/** A frame's bytes, a new copy each time. */
export function golden(name: GoldenName): ArrayBuffer {
  const pairs = frames[name].bytes.join("").match(/../g) ?? [];
  return Uint8Array.from(pairs, (pair) => parseInt(pair, 16)).buffer;
}

/** The content of a frame. */
export function describes(name: GoldenName): Described {
  return frames[name].decoded;
}

/** The WebAssembly module: Node can't fetch files. */
export const wasm = inNode
  ? await bytesOf(new URL("../pkg/pvwire_wasm_bg.wasm", import.meta.url))
  : undefined;

/** The module of GraphQL documents. */
export const graphqlWasm = inNode
  ? await bytesOf(new URL("../pkg/pvwire_graphql_bg.wasm", import.meta.url))
  : undefined;

/** The module of archived samples. */
export const archiveWasm = inNode
  ? await bytesOf(new URL("../pkg/pvwire_archive_bg.wasm", import.meta.url))
  : undefined;

/** The module of formulas and local PVs. */
export const pageWasm = inNode
  ? await bytesOf(new URL("../pkg/pvwire_page_bg.wasm", import.meta.url))
  : undefined;
