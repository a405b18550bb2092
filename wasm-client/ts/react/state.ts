/** The hooks for the connection's state, rates, and skipped values. */

import { useMemo, useSyncExternalStore } from "react";

import type {
  ConnectionSnapshot,
  PvClient,
  PvOptions,
  PvSkips,
  Readable,
  StatsSnapshot,
} from "../types.js";
import { useClient } from "./provider.js";
import { NO_PV, usePv, useSameOptions } from "./pv.js";

/** The state of the connection to the relay. */
export function useConnection(): ConnectionSnapshot {
  const { connection } = useClient();
  return useSyncExternalStore(connection.subscribe, connection.getSnapshot, connection.getSnapshot);
}

/** Rates and totals of all updates; renders once a second. */
export function useStats(): StatsSnapshot {
  const { stats } = useClient();
  return useSyncExternalStore(stats.subscribe, stats.getSnapshot, stats.getSnapshot);
}

/**
 * Updates of the PV per second, measured over the last second; `undefined` until it has been
 * measured.
 */
export function useRate(name: string | undefined, options?: PvOptions): number | undefined {
  const client = useClient();
  const same = useSameOptions(options);
  const rate = useMemo(
    () => (name === undefined ? NO_PV : rateOf(client, name, same)),
    [client, name, same],
  );
  return useSyncExternalStore(rate.subscribe, rate.getSnapshot, () => undefined);
}

function rateOf(client: PvClient, name: string, options: PvOptions): Readable<number | undefined> {
  const pv = client.pv(name, "{ id }", options);
  let rate: number | undefined;
  return {
    subscribe: (listener) => {
      const count = (): { atMs: number; updates: number | undefined } => ({
        atMs: performance.now(),
        updates: client.inspect(name, options)?.updatesReceived,
      });
      const endPv = pv.subscribe(() => undefined);
      let before = count();
      const endStats = client.stats.subscribe(() => {
        const now = count();
        const { updates = 0 } = before;
        const received = (now.updates ?? 0) - updates;
        // Counts restart with each connection to the relay. The first value was already there and
        // may be old.
        const isUnknown = received < 0 || (updates === 0 && received > 0);
        rate = isUnknown ? undefined : (1000 * received) / (now.atMs - before.atMs);
        before = now;
        listener();
      });
      return () => {
        endStats();
        endPv();
        rate = undefined;
      };
    },
    getSnapshot: () => rate,
  };
}

/** Number of a PV's values that this page didn't get, in total and by cause. */
export interface Skipped extends PvSkips {
  /** For any cause. */
  readonly total: number;
}

const NO_SKIPS: Skipped = {
  total: 0,
  behind: 0,
  paced: 0,
  filter: 0,
  relay: 0,
  source: 0,
  bus: 0,
};

/** Number of the PV's values that this page didn't get. */
export function useSkipped(name: string | undefined, options?: PvOptions): Skipped {
  const pv = usePv(name, "{ skipped skips { behind paced filter relay source bus } }", options);
  return useMemo(() => (pv === undefined ? NO_SKIPS : { total: pv.skipped, ...pv.skips }), [pv]);
}
