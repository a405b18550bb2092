/** The frames that every client reads, from the schema's tests; in Node from disk, in a browser over HTTP. */

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

const FILES = [
  "hello",
  "hello_stranger",
  "hello_fleet",
  "snapshot",
  "update",
  "catch_up",
  "skips",
  "paced",
  "special_numbers",
  "not_numbers",
  "disconnected",
  "metadata_change",
  "arrays",
  "got",
  "unsubscribed",
  "pong",
  "error",
  "integers",
  "structure",
  "structure_part",
  "unsaid",
  "put_done",
  "put_written",
  "relays",
  "put_held",
  "rpc_done",
] as const;

export type GoldenName = (typeof FILES)[number];

/** A frame's description, as far as the tests read it. */
export interface Described {
  tick: number;
  numbers: { id: number; timeNs: string; value: number | string }[];
  blobs: { id: number; text: string[]; count: number; data: number[]; type: string }[];
  alarms: { row: number; severity: number; status: number }[];
}

const frames = new Map<GoldenName, { bytes: ArrayBuffer; described: Described }>();
for (const name of FILES) {
  const at = (ending: string): URL =>
    new URL(`../../schema/tests/golden/${name}.${ending}`, import.meta.url);
  const described = JSON.parse(await textOf(at("json"))) as Described;
  frames.set(name, { bytes: await bytesOf(at("bin")), described });
}

/** A frame's bytes, a new copy each time. */
export function golden(name: GoldenName): ArrayBuffer {
  return (frames.get(name) as { bytes: ArrayBuffer }).bytes.slice(0);
}

/** The content of a frame. */
export function describes(name: GoldenName): Described {
  return (frames.get(name) as { described: Described }).described;
}

/** The WebAssembly module: Node can't fetch files. */
export const wasm = inNode
  ? await bytesOf(new URL("../pkg/pvwire_wasm_bg.wasm", import.meta.url))
  : undefined;

/** The module of GraphQL documents. */
export const graphqlWasm = inNode
  ? await bytesOf(new URL("../pkg/pvwire_graphql_bg.wasm", import.meta.url))
  : undefined;

/** The module of formulas and local PVs. */
export const pageWasm = inNode
  ? await bytesOf(new URL("../pkg/pvwire_page_bg.wasm", import.meta.url))
  : undefined;
