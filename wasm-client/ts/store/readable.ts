/** Listeners, and values that notify listeners of changes. */

import type { Readable } from "../types.js";

/** Reports an exception of a listener; the other listeners are still called. */
export function report(error: unknown): void {
  if (typeof reportError === "function") reportError(error);
  else console.error(error);
}

export function callListener(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    report(error);
  }
}

/** A function that listens to any number of PVs. */
export interface Listener {
  readonly call: () => void;
  /** The last round that it was part of. */
  round: number;
}

const known = new WeakMap<() => void, Listener>();

let rounds = 0;

/** One listener, or any other number of them: most PVs have one. */
export type ListenerSet = Listener | readonly Listener[];

/** The listeners to call for one set of changes, each once. */
export class Round {
  #number = ++rounds;
  #sets: ListenerSet[];
  #count = 0;

  /** `expected` is how much will probably be added. */
  constructor(expected = 0) {
    this.#sets = new Array<ListenerSet>(expected);
  }

  add(listeners: ListenerSet): void {
    this.#sets[this.#count++] = listeners;
  }

  /** Calls each listener once. */
  call(): void {
    for (let at = 0; at < this.#count; at += 1) {
      const listeners = this.#sets[at] as ListenerSet;
      if ("call" in listeners) this.#notify(listeners);
      else for (const listener of listeners) this.#notify(listener);
    }
  }

  #notify(listener: Listener): void {
    // A later round has notified it if it began in a listener of this one.
    if (listener.round >= this.#number) return;
    listener.round = this.#number;
    callListener(listener.call);
  }
}

/** Listeners in the order of registration; the same function added twice is two listeners. */
export class Listeners {
  /** Replaced as a whole, because listeners can be added and removed while others are called. */
  all: readonly Listener[] = [];

  /** The listeners as `Round` takes them. */
  get set(): ListenerSet {
    const [first] = this.all;
    return first !== undefined && this.all.length === 1 ? first : this.all;
  }

  /** Returns a function that removes the listener; calling it again does nothing. */
  add(call: () => void): () => boolean {
    const listener = known.get(call) ?? { call, round: 0 };
    known.set(call, listener);
    this.all = [...this.all, listener];
    let listens = true;
    return () => {
      if (!listens) return false;
      listens = false;
      const index = this.all.indexOf(listener);
      this.all = this.all.filter((_, at) => at !== index);
      return true;
    };
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
    return this.#listeners.all.length > 0;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const remove = this.#listeners.add(listener);
    this.#onListened();
    return remove;
  };

  readonly getSnapshot = (): T => this.#value;

  set(value: T): void {
    this.#value = value;
    for (const { call } of this.#listeners.all) callListener(call);
  }
}
