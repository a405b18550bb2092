/** Who listens to a value that changes? */

import type { Readable } from "./types.js";

/** Calls a listener; what it throws is reported and stops nobody else. */
export function callListener(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    if (typeof reportError === "function") reportError(error);
    else console.error(error);
  }
}

/** Listeners in the order they came; the same function twice is two listeners. */
export class Listeners {
  #listeners = new Map<symbol, () => void>();

  get size(): number {
    return this.#listeners.size;
  }

  /** Gives a function that takes the listener away; calling it again does nothing. */
  add(listener: () => void): () => boolean {
    const key = Symbol();
    this.#listeners.set(key, listener);
    return () => this.#listeners.delete(key);
  }

  /** A copy: listeners come and go while others are called. */
  copy(): (() => void)[] {
    return [...this.#listeners.values()];
  }
}

/** A value that is replaced as a whole. */
export class Cell<T> implements Readable<T> {
  #value: T;
  #listeners = new Listeners();
  #onListened: () => void;

  constructor(value: T, onListened: () => void) {
    this.#value = value;
    this.#onListened = onListened;
  }

  get listened(): boolean {
    return this.#listeners.size > 0;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const remove = this.#listeners.add(listener);
    this.#onListened();
    return remove;
  };

  readonly getSnapshot = (): T => this.#value;

  set(value: T): void {
    this.#value = value;
    for (const listener of this.#listeners.copy()) callListener(listener);
  }
}
