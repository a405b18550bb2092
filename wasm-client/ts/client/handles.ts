/** The PVs returned by `pv`: the same name, filter and selection give the same object. */

import { filterOf, isLocal, PvHandle, type PvOwner } from "../pv/pv.js";
import type { PvOptions } from "../types.js";

/** Above this number of handles, those without listeners are dropped. */
const MANY_HANDLES = 1000;

export class Handles {
  #owner: PvOwner;
  /** By selection, then by name with filter: no text is put together to find a handle. */
  #handles = new Map<string, Map<string, PvHandle>>();
  #count = 0;
  #sweepAt = MANY_HANDLES;

  constructor(owner: PvOwner) {
    this.#owner = owner;
  }

  /** Throws an error in the selection if the module is loaded, otherwise later. */
  pv(name: string, selection?: string, options?: PvOptions): PvHandle {
    const filter = isLocal(name) ? "" : filterOf(options);
    const key = name + filter;
    const known = this.#handles.get(selection ?? "")?.get(key);
    const handle = known ?? new PvHandle(this.#owner, name, selection, filter);
    handle.compile();
    if (known === undefined) {
      this.#sweep();
      const same = this.#handles.get(selection ?? "") ?? new Map<string, PvHandle>();
      this.#handles.set(selection ?? "", same.set(key, handle));
      this.#count += 1;
    }
    return handle;
  }

  #sweep(): void {
    if (this.#count < this.#sweepAt) return;
    this.#count = 0;
    for (const [selection, same] of this.#handles) {
      for (const [key, handle] of same) {
        if (!handle.listened) same.delete(key);
      }
      if (same.size === 0) this.#handles.delete(selection);
      this.#count += same.size;
    }
    this.#sweepAt = Math.max(MANY_HANDLES, 2 * this.#count);
  }
}
