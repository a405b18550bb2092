/** Loads a WebAssembly module from a URL, from bytes or as a compiled module. */

import { LoadError } from "../errors.js";
import type { WasmSource } from "../types.js";

type Source = WasmSource | Promise<WasmSource> | undefined;

const isModule = (source: unknown): source is WebAssembly.Module =>
  source instanceof WebAssembly.Module;

const isBytes = (source: unknown): source is BufferSource =>
  source instanceof ArrayBuffer || ArrayBuffer.isView(source);

/** One module, loaded once for all clients of a page. A failed attempt can be repeated. */
export class Loader<T> {
  loaded: T | undefined;
  #loading: Promise<void> | undefined;

  /** `address` returns the URL of the module in this package. */
  constructor(
    readonly initialize: (module: WebAssembly.Module | BufferSource) => T,
    readonly address: () => URL,
  ) {}

  /** Whether the module is loaded; loads it synchronously if possible. */
  isLoaded(source: Source): boolean {
    // Browsers compile only small modules synchronously; Node compiles any.
    const atOnce = isModule(source) || (isBytes(source) && typeof window === "undefined");
    if (this.loaded === undefined && atOnce) this.loaded = this.initialize(source);
    return this.loaded !== undefined;
  }

  load(source: Source): Promise<void> {
    if (this.isLoaded(source)) return Promise.resolve();
    this.#loading ??= this.#instantiate(source ?? this.address()).catch((error: unknown) => {
      this.#loading = undefined;
      let why = error instanceof Error ? error.message : String(error);
      // Browsers recommend more than is needed.
      if (/unsafe-eval|CSP/.test(why)) {
        why = `the page's Content Security Policy forbids it: the operator of the page's server adds 'wasm-unsafe-eval' to script-src`;
      }
      const failed = new LoadError(`the WebAssembly module can't be loaded: ${why}`);
      console.error(failed.message);
      throw failed;
    });
    return this.#loading;
  }

  /**
   * Compiles the module after it has arrived completely. It is small, and so the server may send it
   * with any content type.
   */
  async #instantiate(given: WasmSource | Promise<WasmSource>): Promise<void> {
    let source = await given;
    if (!isModule(source)) {
      const bytes = isBytes(source) ? source : await fetched(source);
      source = await WebAssembly.compile(bytes);
    }
    this.loaded = this.initialize(source);
  }
}

async function fetched(source: string | URL | Request | Response): Promise<BufferSource> {
  // Node's fetch can't read files.
  if (source instanceof URL && source.protocol === "file:" && "process" in globalThis) {
    // Bundlers for browsers must not resolve this module.
    const fs = "node:fs/promises";
    const { readFile } = (await import(
      /* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ fs
    )) as { readFile: (path: URL) => Promise<Uint8Array<ArrayBuffer>> };
    return readFile(source);
  }
  const response = source instanceof Response ? source : await fetch(source);
  const bytes = await response.arrayBuffer();
  // Many servers of pages answer with the page where a file is missing.
  if (!response.ok || new Uint8Array(bytes)[0] !== 0) {
    throw new Error(
      `${response.url} (status ${String(response.status)}) is another file: the operator of the page's server copies the package's there`,
    );
  }
  return bytes;
}
