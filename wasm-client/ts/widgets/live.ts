/** Writes what changes with each update of a PV into the page. React renders only other changes. */

import { useEffect, useLayoutEffect, useMemo, useState, useSyncExternalStore } from "react";

import { usePvStore } from "../react/pv.js";
import type { Readable } from "../types.js";
import { Sight } from "./seen.js";

const nothing = (): undefined => undefined;

/** On a server React 18 warns of layout effects, which have no effect there. */
const useCommitEffect = typeof document === "object" ? useLayoutEffect : useEffect;

/** Writes the parts of a widget that change with each update, except those that are right. */
export type Write<T> = (pv: T | undefined) => void;

/**
 * A PV for a widget that writes some parts of its elements itself, and a function to use as the
 * `ref` of its element. The component renders only when `isAlike` finds a difference between two
 * results, which must be an equivalence relation; otherwise `write` is called. It must write all
 * parts that may differ between two results that are alike: it is also called after each render,
 * because React compares with what it rendered before, and not with what has been written since.
 * While the element is out of view, both happen at most every two seconds.
 */
export function useLivePv<T>(
  name: string | undefined,
  selection: string,
  isAlike: (one: T, other: T) => boolean,
  write: Write<T>,
): readonly [T | undefined, (element: Element | null) => void] {
  const pv = usePvStore<T>(name, selection, undefined);
  const [sight] = useState(() => new Sight());
  const live = useMemo(() => new LivePv(pv, sight, isAlike), [pv, sight, isAlike]);
  const rendered = useSyncExternalStore(live.subscribe, live.getSnapshot, nothing);
  useCommitEffect(() => {
    live.show(rendered, write);
    return live.hide;
  });
  return [live.newest(rendered), sight.watch];
}

class LivePv<T> {
  #pv: Readable<T | undefined>;
  #sight: Sight;
  #isAlike: (one: T, other: T) => boolean;
  /** React compares it with the next one. */
  #snapshot: T | undefined;
  /** The snapshot of the last commit. */
  #rendered: T | undefined;
  /** The last result like it that was written. */
  #written: T | undefined;
  /** Only while the component is on the page with this PV. */
  #write: Write<T> | undefined;

  constructor(pv: Readable<T | undefined>, sight: Sight, isAlike: (one: T, other: T) => boolean) {
    this.#pv = pv;
    this.#sight = sight;
    this.#isAlike = isAlike;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const update = (): void => {
      // The parts belong to what was rendered: if that changes too, they are written after it.
      if (this.#write !== undefined && this.#take()) this.#write(this.#written);
      else listener();
    };
    const end = this.#pv.subscribe(() => {
      this.#sight.tell(update);
    });
    // What changed since the commit.
    update();
    return () => {
      end();
      this.#sight.forget();
    };
  };

  /** The same result until one comes that is not like it. */
  readonly getSnapshot = (): T | undefined => {
    const now = this.#pv.getSnapshot();
    if (!this.#areAlike(this.#snapshot, now)) this.#snapshot = now;
    return this.#snapshot;
  };

  /** The newest result that is like `rendered`: what React writes must not be older. */
  newest(rendered: T | undefined): T | undefined {
    // Nothing while a page takes over what a server has rendered.
    if (rendered === undefined) return undefined;
    const now = this.#pv.getSnapshot();
    return this.#areAlike(rendered, now) ? now : rendered;
  }

  /** Called when React has changed the elements. */
  show(rendered: T | undefined, write: Write<T>): void {
    this.#write = write;
    if (rendered !== this.#rendered) this.#written = rendered;
    this.#rendered = rendered;
    this.#take();
    write(this.#written);
  }

  /** Called before React changes or removes the elements: they may become those of another PV. */
  readonly hide = (): void => {
    this.#write = undefined;
  };

  /** Takes the PV's result as the one to write if it is like the rendered one. */
  #take(): boolean {
    const now = this.#pv.getSnapshot();
    const isAlike = this.#areAlike(this.#rendered, now);
    if (isAlike) this.#written = now;
    return isAlike;
  }

  #areAlike(one: T | undefined, other: T | undefined): boolean {
    return one === other || (one !== undefined && other !== undefined && this.#isAlike(one, other));
  }
}
