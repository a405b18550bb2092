/** The hooks that read PVs. A component renders again only when its selected fields changed. */

import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";

import type { PvClient, PvData, PvOptions, Readable } from "../types.js";
import { useClient } from "./provider.js";
import type { Selected } from "./selected.js";

const nothing = (): undefined => undefined;

/** The same object until its contents change: options written inline are a new one each time. */
export function useSameOptions(options: PvOptions | undefined): PvOptions {
  const { deadband, every, float32, maxLength, points, rateHz, stride } = options ?? {};
  return useMemo(
    () => ({ deadband, every, float32, maxLength, points, rateHz, stride }),
    [deadband, every, float32, maxLength, points, rateHz, stride],
  );
}

/** The PV that a hook of this package reads. */
export function usePvStore<T>(
  name: string,
  selection: string | undefined,
  options: PvOptions | undefined,
): Readable<T | undefined> {
  const client = useClient();
  const same = useSameOptions(options);
  return useMemo(() => client.pv<T>(name, selection, same), [client, name, selection, same]);
}

/**
 * The PV `name` with `selection`, with all of its updates or only those that `options` request,
 * such as `{ rateHz: 2 }`. `undefined` on a server and until the module is loaded. The result type
 * is inferred from a literal selection; for any other, pass it: `usePv<Mine>(name, selection)`.
 *
 * ```tsx
 * const temperature = usePv("TEMP", "{ value { string } }");
 * return <b>{temperature?.value?.string ?? "…"}</b>;
 * ```
 * @throws SelectionError when the selection is wrong.
 */
export function usePv(name: string, selection?: undefined, options?: PvOptions): PvData | undefined;
export function usePv<const S extends string>(
  name: string,
  selection: S,
  options?: PvOptions,
): Selected<S> | undefined;
export function usePv<T>(name: string, selection?: string, options?: PvOptions): T | undefined;
export function usePv(name: string, selection?: string, options?: PvOptions): unknown {
  const pv = usePvStore(name, selection, options);
  return useSyncExternalStore(pv.subscribe, pv.getSnapshot, nothing);
}

/** Several PVs with one selection and the same options, in the order of `names`. */
export function usePvs(
  names: readonly string[],
  selection?: undefined,
  options?: PvOptions,
): readonly (PvData | undefined)[];
export function usePvs<const S extends string>(
  names: readonly string[],
  selection: S,
  options?: PvOptions,
): readonly (Selected<S> | undefined)[];
export function usePvs<T>(
  names: readonly string[],
  selection?: string,
  options?: PvOptions,
): readonly (T | undefined)[];
export function usePvs(
  names: readonly string[],
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
  names: readonly string[],
  selection: string | undefined,
  options: PvOptions | undefined,
): PvsStore {
  const client = useClient();
  const same = useSameOptions(options);
  // Lists written inline are compared by content.
  const key = JSON.stringify(names);
  return useMemo(
    () => pvsStore(client, JSON.parse(key) as string[], selection, same),
    [client, key, selection, same],
  );
}

function pvsStore(
  client: PvClient,
  names: string[],
  selection: string | undefined,
  options: PvOptions,
): PvsStore {
  const pvs = names.map((name) => client.pv<unknown>(name, selection, options));
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
  name: string,
  selection: S,
  derive: (pv: Selected<S> | undefined) => R,
  options?: SelectorOptions<R>,
): R;
export function usePvSelector<const S extends string, R>(
  names: readonly string[],
  selection: S,
  derive: (pvs: readonly (Selected<S> | undefined)[]) => R,
  options?: SelectorOptions<R>,
): R;
export function usePvSelector<R>(
  names: string | readonly string[],
  selection: string,
  derive: ((pv: never) => R) | ((pvs: never) => R),
  options?: SelectorOptions<R>,
): R {
  const single = typeof names === "string";
  const store = usePvsStore(single ? [names] : names, selection, options);
  const isEqual = options?.isEqual ?? sameInside;
  const last = useRef<{ readonly derived: R }>(undefined);
  const { now, onServer } = useMemo(() => {
    const deriving = (read: () => readonly unknown[]): (() => R) => {
      let seen: { readonly of: readonly unknown[]; readonly derived: R } | undefined;
      return () => {
        const of = read();
        if (seen?.of === of) return seen.derived;
        let derived = derive((single ? of[0] : of) as never);
        // Written inline, `derive` is a new function in each render: the last shown value is
        // compared.
        // eslint-disable-next-line react-hooks/refs -- decides about identity, not about what is shown
        const before = seen ?? last.current;
        if (before !== undefined && isEqual(before.derived, derived)) derived = before.derived;
        seen = { of, derived };
        return derived;
      };
    };

    return { now: deriving(store.getSnapshot), onServer: deriving(store.getServerSnapshot) };
  }, [store, derive, isEqual, single]);
  const derived = useSyncExternalStore(store.subscribe, now, onServer);
  useEffect(() => {
    last.current = { derived };
  }, [derived]);
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
  return prototype === Object.prototype || prototype === Array.prototype;
}
