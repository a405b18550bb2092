/**
 * Code that is loaded when it is first needed, and calls that are deferred to the next microtask.
 */

import { LoadError } from "./errors.js";

/**
 * An object of a client, from a module that is loaded when the object is first needed. A failed
 * attempt can be repeated. All waiting callers continue in the order of their calls: they share one
 * promise, because browsers finish several imports of one module in any order.
 */
export class Lazy<T> {
  /** `undefined` until the module is loaded. */
  value: T | undefined;
  #promise: Promise<T> | undefined;

  constructor(readonly fetch: () => Promise<T>) {}

  load(): Promise<T> {
    return (this.#promise ??= this.fetch().then(
      (value) => (this.value = value),
      (error: unknown) => {
        this.#promise = undefined;
        if (error instanceof LoadError) throw error;
        // The page's server may have another version now.
        throw new LoadError(`reload the page: ${String(error)}`);
      },
    ));
  }
}

/** A function that runs `task` once in the next microtask, however often it is called until then. */
export function soon(task: () => void): () => void {
  let isPlanned = false;
  return () => {
    if (isPlanned) return;
    isPlanned = true;
    queueMicrotask(() => {
      isPlanned = false;
      task();
    });
  };
}
