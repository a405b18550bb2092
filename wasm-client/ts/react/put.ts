/** The hook that writes a PV and reports the result. */

import { useCallback, useState } from "react";

import type { PutFailure, PutOptions, PutResult, PutValue } from "../types.js";
import { useClient, usePvKey } from "./provider.js";

/** The functions and state that a component needs to write one PV. */
export interface PutHandle {
  /** Writes; returns the outcome. */
  readonly put: (value: PutValue, options?: PutOptions) => Promise<PutResult>;
  /** `pending` while a put has no outcome; otherwise the outcome of the put that ended last. */
  readonly state: "idle" | "pending" | "done" | "failed";
  /** Number of puts of this component that have no outcome yet. */
  readonly pending: number;
  /** Error of the put that ended last; `undefined` if it succeeded. */
  readonly error: PutFailure["error"] | undefined;
  /** `error.message`. */
  readonly reason: string | undefined;
  /** Forgets the last outcome. */
  readonly reset: () => void;
}

interface Puts {
  readonly pending: number;
  readonly last: PutResult | undefined;
}

const NONE: Puts = { pending: 0, last: undefined };

/**
 * Writes the PV `name`; without a name, puts fail. State and outcomes belong to the
 * name: after a change of it they are those of the new PV.
 *
 * ```tsx
 * const { put, state, reason } = usePut("TEMP:SET");
 * return (
 *   <button disabled={state === "pending"} onClick={() => void put(20)}>
 *     20 °C {state === "failed" && reason}
 *   </button>
 * );
 * ```
 */
export function usePut(name: string | undefined, defaults?: PutOptions): PutHandle {
  const client = useClient();
  const key = usePvKey(name);
  const [all, setAll] = useState<ReadonlyMap<string, Puts>>(() => new Map());
  const { last, pending } = all.get(key) ?? NONE;
  const change = useCallback(
    (make: (before: Puts) => Puts) => {
      setAll((before) => new Map(before).set(key, make(before.get(key) ?? NONE)));
    },
    [key],
  );
  const { checkLimits, coalesce, onlyIfUnchanged, timeoutMs, wait } = defaults ?? {};
  const put = useCallback(
    async (value: PutValue, options?: PutOptions): Promise<PutResult> => {
      const usual = { checkLimits, coalesce, onlyIfUnchanged, timeoutMs, wait };
      const known = Object.entries(usual).filter(([, option]) => option !== undefined);
      change((puts) => ({ ...puts, pending: puts.pending + 1 }));
      let outcome: Partial<Puts> = {};
      try {
        const own = { ...Object.fromEntries(known), ...options };
        // The relay refuses an empty name.
        const result = await client.put(name ?? "", value, own);
        outcome = { last: result };
        return result;
      } finally {
        change((puts) => ({ ...puts, ...outcome, pending: puts.pending - 1 }));
      }
    },
    [change, client, name, checkLimits, coalesce, onlyIfUnchanged, timeoutMs, wait],
  );
  const reset = useCallback(() => {
    change((puts) => ({ ...puts, last: undefined }));
  }, [change]);
  const error = last?.ok === false ? last.error : undefined;
  const outcome = last === undefined ? "idle" : last.ok ? "done" : "failed";
  const state = pending > 0 ? "pending" : outcome;
  return { put, state, pending, error, reason: error?.message, reset };
}
