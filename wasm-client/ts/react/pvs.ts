/** The hooks that read several PVs, or derive a value from some. */

import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";

import { WRITABLE } from "../store/json.js";
import type { PvClient, PvData, PvOptions, Readable } from "../types.js";
import { useClient } from "./provider.js";
import { pvOf, useSameOptions, type Name } from "./pv.js";
import type { Checked, Selected, Stated } from "./selected.js";

const nothing = (): undefined => undefined;

/** Several PVs with one selection and the same options, in the order of `names`. */
export function usePvs(
  names: readonly Name[],
  selection?: undefined,
  options?: PvOptions,
): readonly (PvData | undefined)[];
export function usePvs<T = never>(
  names: readonly Name[],
  selection?: Stated<T>,
  options?: PvOptions,
): readonly (T | undefined)[];
export function usePvs<const S extends string>(
  names: readonly Name[],
  selection: Checked<S>,
  options?: PvOptions,
): readonly (Selected<S> | undefined)[];
export function usePvs(
  names: readonly Name[],
  selection?: string,
  options?: PvOptions,
): readonly unknown[] {
  const store = usePvsStore(names, selection, options);
  return useSyncExternalStore(store.subscribe, store.getSnapshot, store.getServerSnapshot);
}

interface PvsStore extends Readable<readonly unknown[]> {
  readonly getServerSnapshot: () => readonly undefined[];
}

function usePvsStore(
  names: readonly Name[],
  selection: string | undefined,
  options: PvOptions | undefined,
): PvsStore {
  const client = useClient();
  const same = useSameOptions(options);
  // Lists written inline are compared by content.
  const key = JSON.stringify(names);
  return useMemo(
    // A name that is undefined has become null.
    () => pvsStore(client, JSON.parse(key) as (string | null)[], selection, same),
    [client, key, selection, same],
  );
}

function pvsStore(
  client: PvClient,
  names: (string | null)[],
  selection: string | undefined,
  options: PvOptions,
): PvsStore {
  const pvs = names.map((name) => pvOf(client, name, selection, options));
  const none = pvs.map(nothing);
  let shown: readonly unknown[] = none;
  return {
    subscribe: (listener) => {
      const ends = pvs.map((pv) => pv.subscribe(listener));
      return () => {
        for (const end of ends) end();
      };
    },
    getSnapshot: () => {
      const now = pvs.map((pv) => pv.getSnapshot());
      if (now.some((data, at) => data !== shown[at])) shown = now;
      return shown;
    },
    getServerSnapshot: () => none,
  };
}

/** Options of updates, and the comparison of derived values. */
export interface SelectorOptions<R> extends PvOptions {
  /** @default identical values, or objects or arrays with identical contents */
  isEqual?: (before: R, now: R) => boolean;
}

/**
 * A value derived from a PV: the component renders again only when that value changed, not whenever
 * the PV did.
 *
 * ```tsx
 * const isHot = usePvSelector("TEMP", "{ value { number } }", (pv) => (pv?.value?.number ?? 0) > 60);
 * ```
 * @throws SelectionError when the selection is wrong.
 */
export function usePvSelector<const S extends string, R>(
  name: Name,
  selection: Checked<S>,
  derive: (pv: Selected<S> | undefined) => R,
  options?: SelectorOptions<R>,
): R;
export function usePvSelector<const S extends string, R>(
  names: readonly Name[],
  selection: Checked<S>,
  derive: (pvs: readonly (Selected<S> | undefined)[]) => R,
  options?: SelectorOptions<R>,
): R;
export function usePvSelector<R>(
  names: Name | readonly Name[],
  selection: string,
  derive: ((pv: never) => R) | ((pvs: never) => R),
  options?: SelectorOptions<R>,
): R {
  const single = !Array.isArray(names);
  const store = usePvsStore(single ? [names as Name] : names, selection, options);
  const isEqual = options?.isEqual ?? sameInside;
  const last = useRef<{ readonly store: PvsStore; readonly derived: R }>(undefined);
  const { now, onServer } = useMemo(() => {
    const deriving = (read: () => readonly unknown[]): (() => R) => {
      let seen: { readonly of: readonly unknown[]; readonly derived: R } | undefined;
      return () => {
        const of = read();
        if (seen?.of === of) return seen.derived;
        let derived = derive((single ? of[0] : of) as never);
        // Written inline, `derive` is a new function in each render: the last shown value is
        // compared, unless it is that of other PVs.
        // eslint-disable-next-line react-hooks/refs -- decides about identity, not about what is shown
        const before = seen ?? (last.current?.store === store ? last.current : undefined);
        if (before !== undefined && isEqual(before.derived, derived)) derived = before.derived;
        seen = { of, derived };
        return derived;
      };
    };

    return { now: deriving(store.getSnapshot), onServer: deriving(store.getServerSnapshot) };
  }, [store, derive, isEqual, single]);
  const derived = useSyncExternalStore(store.subscribe, now, onServer);
  useEffect(() => {
    last.current = { store, derived };
  }, [store, derived]);
  return derived;
}

function sameInside(before: unknown, now: unknown): boolean {
  if (Object.is(before, now)) return true;
  if (!isPlain(before) || !isPlain(now) || Array.isArray(before) !== Array.isArray(now)) {
    return false;
  }
  const [keys, others] = [Object.keys(before), Object.keys(now)];
  return (
    keys.length === others.length &&
    keys.every((key) => Object.hasOwn(now, key) && Object.is(before[key], now[key]))
  );
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return [Object.prototype, Array.prototype, WRITABLE].includes(prototype as object);
}
