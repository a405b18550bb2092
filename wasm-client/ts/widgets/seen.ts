/** Which widgets may lag behind their PV? Those that the browser doesn't lay out because nobody sees them. */

import { useMemo, useState, useSyncExternalStore } from "react";

import { usePvStore } from "../react/pv.js";

/** So long at most: a screen reader reads what nobody sees. */
const LAG_MS = 1000;

/** Widgets out of sight are told in so many groups, one after the other. */
const GROUPS = 10;

/** `content-visibility: auto` tells; not yet in every list of events. */
const SKIPPED = "contentvisibilityautostatechange";

const nothing = (): undefined => undefined;

/**
 * A PV for a widget whose style has `content-visibility: auto`, and what becomes the `ref` of its
 * element. While the browser skips that, it renders at most once a second.
 */
export function useSeenPv<T>(
  name: string,
  selection: string,
): readonly [T | undefined, (element: HTMLElement | null) => void] {
  const pv = usePvStore<T>(name, selection, undefined);
  const [sight] = useState(() => new Sight());
  const subscribe = useMemo(
    () =>
      (listener: () => void): (() => void) => {
        const end = pv.subscribe(() => {
          sight.tell(listener);
        });
        return () => {
          end();
          sight.forget();
        };
      },
    [pv, sight],
  );
  return [useSyncExternalStore(subscribe, pv.getSnapshot, nothing), sight.watch];
}

let sights = 0;

/** One widget, and whether it is seen. */
class Sight {
  readonly group = sights++ % GROUPS;
  #element: HTMLElement | null = null;
  #isSkipped = false;

  readonly watch = (element: HTMLElement | null): void => {
    this.#element?.removeEventListener(SKIPPED, this.#changed);
    this.#element = element;
    this.#isSkipped = false;
    element?.addEventListener(SKIPPED, this.#changed);
  };

  tell(listener: () => void): void {
    if (this.#isSkipped) tellLater(this, listener);
    else listener();
  }

  forget(): void {
    waiting.delete(this);
  }

  readonly #changed = (event: Event): void => {
    // Of widgets inside this one too.
    if (event.target !== this.#element) return;
    this.#isSkipped = (event as ContentVisibilityAutoStateChangeEvent).skipped;
    if (this.#isSkipped) return;
    const listener = waiting.get(this);
    waiting.delete(this);
    listener?.();
  };
}

const waiting = new Map<Sight, () => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let turn = 0;

function tellLater(sight: Sight, listener: () => void): void {
  waiting.set(sight, listener);
  timer ??= setInterval(tellGroup, LAG_MS / GROUPS);
}

function tellGroup(): void {
  turn = (turn + 1) % GROUPS;
  for (const [sight, listener] of waiting) {
    if (sight.group !== turn) continue;
    waiting.delete(sight);
    listener();
  }
  if (waiting.size > 0) return;
  clearInterval(timer);
  timer = undefined;
}
