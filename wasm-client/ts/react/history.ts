/** The hook for the past of PVs with their live updates. */

import { useMemo, useSyncExternalStore } from "react";

import { Lazy } from "../lazy.js";
import { momentText } from "../history/moment.js";
import type { Tail as TailOf } from "../history/tail.js";
import type { LoadError } from "../errors.js";
import type { LivePvHistory, PvClient, PvHistoryOptions, Readable } from "../types.js";
import { useClient } from "./provider.js";

/** Which part of the past `usePvHistory` shows. */
export type UsePvHistoryOptions = Omit<PvHistoryOptions, "signal" | "onPartial">;

/**
 * The past of PVs that the relay keeps, in the order of `names`, continued by live updates without gap or repeat
 * unless `to` is given. A page that draws sixty times a second shows the newest of the updates between.
 *
 * ```tsx
 * const [current] = usePvHistory(["SR:CURRENT"], { from: "-10m", points: 1000 });
 * ```
 */
export function usePvHistory(
  names: readonly string[],
  options: UsePvHistoryOptions = {},
): readonly LivePvHistory[] {
  const client = useClient();
  const { from, points, to } = options;
  // Options written inline are compared by content.
  const key = JSON.stringify([names, { from: momentText(from), to: momentText(to), points }]);
  const store = useMemo(() => historyStore(client, key), [client, key]);
  return useSyncExternalStore(store.subscribe, store.getSnapshot, store.getSnapshot);
}

const lazyTail = new Lazy(() => import("../history/tail.js").then(({ Tail }) => Tail));

function historyStore(client: PvClient, key: string): Readable<readonly LivePvHistory[]> {
  const [names, range] = JSON.parse(key) as [string[], UsePvHistoryOptions];
  const none = names.map((name): LivePvHistory => ({
    name,
    isLoading: true,
    timeNs: new BigInt64Array(),
    numbers: new Float64Array(),
    severities: new Uint8Array(),
    gaps: [],
    error: undefined,
  }));
  let shown: readonly LivePvHistory[] = none;
  return {
    getSnapshot: () => shown,
    subscribe: (listener) => {
      let isEnded = false;
      let end = (): void => undefined;
      const start = (Tail: typeof TailOf): void => {
        if (isEnded) return;
        const update = (): void => {
          shown = tails.map((tail) => tail.shown);
          listener();
        };
        let tails: readonly { readonly shown: LivePvHistory }[] = [];
        const made = names.map(
          (name) =>
            new Tail(client, name, range, () => {
              if (tails.length > 0) update();
            }),
        );
        tails = made;
        update();
        end = () => {
          for (const tail of made) tail.end();
        };
      };
      lazyTail.load().then(start, (error: unknown) => {
        if (isEnded) return;
        // A `LoadError`: the page's server has another version now.
        shown = none.map((each) => ({ ...each, isLoading: false, error: error as LoadError }));
        listener();
      });
      return () => {
        isEnded = true;
        end();
      };
    },
  };
}
