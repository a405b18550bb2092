/** The PVs returned by `pv`: the same name, filter and selection give the same object. */

import { filterOf, isLocal, PvHandle, type PvOwner } from "../pv/pv.js";
import type { PvOptions } from "../types.js";

/** Above this number of handles, those without listeners are dropped. */
const MANY_HANDLES = 1000;

export class Handles {
  #owner: PvOwner;
  #handles = new Map<string, PvHandle>();
  #sweepAt = MANY_HANDLES;

  constructor(owner: PvOwner) {
    this.#owner = owner;
  }

  /** Throws an error in the selection if the module is loaded, otherwise later. */
  pv(name: string, selection?: string, options?: PvOptions): PvHandle {
    const filter = isLocal(name) ? "" : filterOf(options);
    const key = `${name}${filter}\n${selection ?? ""}`;
    const known = this.#handles.get(key);
    const handle = known ?? new PvHandle(this.#owner, name, selection, filter);
    handle.compile();
    if (known === undefined) {
      this.#sweep();
      this.#handles.set(key, handle);
    }
    return handle;
  }

  #sweep(): void {
    if (this.#handles.size < this.#sweepAt) return;
    for (const [key, handle] of this.#handles) {
      if (!handle.listened) this.#handles.delete(key);
    }
    this.#sweepAt = Math.max(MANY_HANDLES, 2 * this.#handles.size);
  }
}
