/** The module that `cargo run -p xtask -- wasm-bench` builds of `bench/engine`. */
declare module "bench-engine/pvwire_bench_engine.js" {
  export class Engine {
    constructor(selection: string);
    reserve(bytes: number): number;
    apply(bytes: number): number;
    add(name: string): number;
    ping(): void;
    subscribe(slots: Uint32Array): number;
    flush(all: boolean): number;
    parts(): number;
    clear_dirty(): void;
  }
  export function constants(): string;
  export function initSync(module: BufferSource): { readonly memory: WebAssembly.Memory };
}
