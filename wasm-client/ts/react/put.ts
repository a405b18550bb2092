/** The hook that writes a PV and reports the result. */

import { useCallback, useEffect, useRef, useState } from "react";

import type { PutFailure, PutOptions, PutResult, PutValue } from "../types.js";
import { useClient } from "./provider.js";

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
  /** The PV of these puts: another PV's outcome does not apply to this one. */
  readonly name: string;
  readonly pending: number;
  readonly last: PutResult | undefined;
}

/**
 * Writes the PV `name`.
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
export function usePut(name: string, defaults?: PutOptions): PutHandle {
  const client = useClient();
  const [kept, setPuts] = useState<Puts>({ name, pending: 0, last: undefined });
  const { last, pending } = kept.name === name ? kept : noPuts(name);
  const ended = useRef(false);
  useEffect(() => {
    ended.current = false;
    return () => {
      ended.current = true;
    };
  }, []);
  const { coalesce, onlyIfUnchanged, timeoutMs, wait } = defaults ?? {};
  const put = useCallback(
    async (value: PutValue, options?: PutOptions): Promise<PutResult> => {
      const own = { coalesce, onlyIfUnchanged, timeoutMs, wait };
      const known = Object.entries(own).filter(([, option]) => option !== undefined);
      setPuts((puts) => {
        const before = puts.name === name ? puts : noPuts(name);
        return { ...before, pending: before.pending + 1 };
      });
      const result = await client.put(name, value, { ...Object.fromEntries(known), ...options });
      if (!ended.current) {
        setPuts((puts) =>
          puts.name === name ? { name, pending: puts.pending - 1, last: result } : puts,
        );
      }
      return result;
    },
    [client, name, coalesce, onlyIfUnchanged, timeoutMs, wait],
  );
  const reset = useCallback(() => {
    setPuts((puts) => ({ ...puts, last: undefined }));
  }, []);
  const error = last?.ok === false ? last.error : undefined;
  const outcome = last === undefined ? "idle" : last.ok ? "done" : "failed";
  const state = pending > 0 ? "pending" : outcome;
  return { put, state, pending, error, reason: error?.message, reset };
}

const noPuts = (name: string): Puts => ({ name, pending: 0, last: undefined });
