/** The hook that reads a PV. A component renders again only when its selected fields changed. */

import { useMemo, useSyncExternalStore } from "react";

import type { PvClient, PvData, PvOptions, Readable } from "../types.js";
import { useClient } from "./provider.js";
import type { Checked, Selected, Stated } from "./selected.js";

const nothing = (): undefined => undefined;

/** A PV's name; `undefined` means that there is no PV yet. */
export type Name = string | undefined;

/** The same object until its contents change: options written inline are a new one each time. */
export function useSameOptions(options: PvOptions | undefined): PvOptions {
  const { average, deadband, every, float32, maxLength, points, rateHz, stride } = options ?? {};
  return useMemo(
    () => ({ average, deadband, every, float32, maxLength, points, rateHz, stride }),
    [average, deadband, every, float32, maxLength, points, rateHz, stride],
  );
}

/** The PV that a hook of this package reads. */
export function usePvStore<T>(
  name: Name,
  selection: string | undefined,
  options: PvOptions | undefined,
): Readable<T | undefined> {
  const client = useClient();
  const same = useSameOptions(options);
  return useMemo(
    () => pvOf(client, name, selection, same) as Readable<T | undefined>,
    [client, name, selection, same],
  );
}

/** What stands for a PV whose name isn't known yet. */
export const NO_PV: Readable<undefined> = { subscribe: () => nothing, getSnapshot: nothing };

/** The PV of a name in a client. */
export function pvOf(
  client: PvClient,
  name: string | null | undefined,
  selection: string | undefined,
  options: PvOptions,
): Readable<unknown> {
  return name == null ? NO_PV : client.pv<unknown>(name, selection, options);
}

/**
 * The PV `name` with `selection`, with all of its updates or only those that `options` request,
 * such as `{ rateHz: 2 }`. `undefined` on a server, until the module is loaded, and for a name that
 * is `undefined`, which means that there is no PV yet. The result type is inferred from a literal
 * selection, and a wrong field in it is a type error; for any other, pass the type:
 * `usePv<Mine>(name, selection)`.
 *
 * ```tsx
 * const temperature = usePv("TEMP", "{ value { string } }");
 * return <b>{temperature?.value?.string ?? "…"}</b>;
 * ```
 * @throws SelectionError when the selection is wrong. Without an error boundary around the component
 * React then removes the whole page.
 */
export function usePv(name: Name, selection?: undefined, options?: PvOptions): PvData | undefined;
export function usePv<T = never>(
  name: Name,
  selection?: Stated<T>,
  options?: PvOptions,
): T | undefined;
export function usePv<const S extends string>(
  name: Name,
  selection: Checked<S>,
  options?: PvOptions,
): Selected<S> | undefined;
export function usePv(name: Name, selection?: string, options?: PvOptions): unknown {
  const pv = usePvStore(name, selection, options);
  return useSyncExternalStore(pv.subscribe, pv.getSnapshot, nothing);
}
