/** A value that is kept current while it has listeners. */

import { Cell } from "../store/readable.js";
import type { Readable } from "../types.js";

export class WatchedCell<T> implements Readable<T> {
  #cell: Cell<T>;
  #end: (() => void) | undefined;

  /** `begin` is called with the first listener, the function that it returns after the last. */
  constructor(value: T, begin: () => () => void) {
    this.#cell = new Cell(value, () => {
      this.#end ??= begin();
    });
  }

  readonly getSnapshot = (): T => this.#cell.getSnapshot();

  readonly subscribe = (listener: () => void): (() => void) => {
    const remove = this.#cell.subscribe(listener);
    return () => {
      remove();
      if (this.#cell.listened) return;
      this.#end?.();
      this.#end = undefined;
    };
  };

  set(value: T): void {
    this.#cell.set(value);
  }
}
