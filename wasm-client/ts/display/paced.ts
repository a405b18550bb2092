/** Values that components render, paced by the frame queue. */

import { useCallback, useSyncExternalStore } from "react";

import type { Readable } from "../types.js";
import { frameQueue } from "./frame_queue.js";

const nothing = (): undefined => undefined;

/** The present value of a store, which the frame queue paces. Changes that `isUrgent` tells come first. */
export function usePaced<T>(
  store: Readable<T | undefined>,
  isUrgent: (before: T | undefined, now: T | undefined) => boolean,
): T | undefined {
  const subscribe = useCallback(
    (listener: () => void) => {
      let seen = store.getSnapshot();
      // A function of its own: two widgets may have one listener.
      const update = (): void => {
        seen = store.getSnapshot();
        listener();
      };
      frameQueue.join(update);
      const end = store.subscribe(() => {
        frameQueue.add(update, isUrgent(seen, store.getSnapshot()));
      });
      return () => {
        end();
        frameQueue.remove(update);
      };
    },
    [store, isUrgent],
  );
  return useSyncExternalStore(subscribe, store.getSnapshot, nothing);
}
