/** How do React components see PVs? Each hook renders again only when what it selected changed. */

import {
  createContext,
  createElement,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from "react";

import { createClient } from "../index.js";
import type {
  ConnectionSnapshot,
  PutFailure,
  PutOptions,
  PutResult,
  PutValue,
  PvClient,
  PvData,
  PvOptions,
  StatsSnapshot,
} from "../types.js";

const ClientContext = createContext<PvClient | undefined>(undefined);

/** Either a client of the application's own, or where the relay is. */
export type PvProviderProps = { children?: ReactNode } & (
  { client: PvClient; url?: undefined } | { url: string | URL; client?: undefined }
);

/** Gives a client to the hooks below it. A client that it made itself ends with it. */
export function PvProvider({ children, client, url }: PvProviderProps): ReactNode {
  if (client !== undefined) {
    return createElement(ClientContext.Provider, { value: client }, children);
  }
  // Another address is another client.
  return createElement(OwnClient, { key: String(url), url: String(url) }, children);
}

function OwnClient({ children, url }: { children?: ReactNode; url: string }): ReactNode {
  // A client does nothing before it is used: one that is made for a render that React throws away
  // costs nothing.
  const [own] = useState(() => ownClient(url));
  useEffect(() => own.hold(), [own]);
  return createElement(ClientContext.Provider, { value: own.client }, children);
}

function ownClient(url: string): { client: PvClient; hold: () => () => void } {
  const client = createClient({ url });
  let end: ReturnType<typeof setTimeout> | undefined;
  const hold = (): (() => void) => {
    clearTimeout(end);
    return () => {
      // Not at once: StrictMode ends every effect and begins it again.
      end = setTimeout(() => {
        client.dispose();
      }, 0);
    };
  };
  return { client, hold };
}

/** The client of the nearest `PvProvider`. */
export function useClient(): PvClient {
  const client = useContext(ClientContext);
  if (client === undefined) throw new Error("pvwire hooks need a <PvProvider> around them");
  return client;
}

const nothing = (): undefined => undefined;

/**
 * The PV `name` through `selection`, all of its updates or those that `options` ask for, such as
 * `{ rateHz: 2 }`. `undefined` on a server and until the module is loaded.
 *
 * ```tsx
 * const temperature = usePv("TEMP");
 * return <b>{temperature?.value?.string ?? "…"}</b>;
 * ```
 * @throws SelectionError when the selection is wrong.
 */
export function usePv<T = PvData>(
  name: string,
  selection?: string,
  options?: PvOptions,
): T | undefined {
  const client = useClient();
  const { deadband, every, rateHz } = options ?? {};
  const pv = useMemo(
    () => client.pv<T>(name, selection, { deadband, every, rateHz }),
    [client, name, selection, deadband, every, rateHz],
  );
  return useSyncExternalStore<T | undefined>(pv.subscribe, pv.getSnapshot, nothing);
}

/** Several PVs through one selection and with the same options, in the order of `names`. */
export function usePvs<T = PvData>(
  names: readonly string[],
  selection?: string,
  options?: PvOptions,
): readonly (T | undefined)[] {
  const client = useClient();
  const { deadband, every, rateHz } = options ?? {};
  // Callers write the list out in place: only what is in it counts.
  const key = JSON.stringify(names);
  const store = useMemo(
    () => pvsStore<T>(client, JSON.parse(key) as string[], selection, { deadband, every, rateHz }),
    [client, key, selection, deadband, every, rateHz],
  );
  return useSyncExternalStore(store.subscribe, store.getSnapshot, store.getServerSnapshot);
}

interface PvsStore<T> {
  subscribe: (listener: () => void) => () => void;
  getSnapshot: () => readonly (T | undefined)[];
  getServerSnapshot: () => readonly undefined[];
}

function pvsStore<T>(
  client: PvClient,
  names: string[],
  selection: string | undefined,
  options: PvOptions,
): PvsStore<T> {
  const pvs = names.map((name) => client.pv<T>(name, selection, options));
  const none = pvs.map(nothing);
  let shown: readonly (T | undefined)[] = none;
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

/** What a component needs to write one PV. */
export interface PutHandle {
  /** Writes; the result says what became of it. */
  put: (value: PutValue, options?: PutOptions) => Promise<PutResult>;
  /** Puts of this component that have no outcome yet. */
  pending: number;
  /** Why the last put that ended isn't done; `undefined` when it is. */
  error: PutFailure["error"] | undefined;
}

/**
 * Writes the PV `name`.
 *
 * ```tsx
 * const { put, pending, error } = usePut("TEMP:SET");
 * return <button disabled={pending > 0} onClick={() => void put(20)}>20 °C</button>;
 * ```
 */
export function usePut(name: string, defaults?: PutOptions): PutHandle {
  const client = useClient();
  const [state, setState] = useState<Omit<PutHandle, "put">>({ pending: 0, error: undefined });
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
      setState(({ error, pending }) => ({ error, pending: pending + 1 }));
      const result = await client.put(name, value, { ...Object.fromEntries(known), ...options });
      if (!ended.current) {
        const error = result.ok ? undefined : result.error;
        setState(({ pending }) => ({ error, pending: pending - 1 }));
      }
      return result;
    },
    [client, name, coalesce, onlyIfUnchanged, timeoutMs, wait],
  );
  return { put, ...state };
}

/** The state of the connection to the relay. */
export function useConnection(): ConnectionSnapshot {
  const { connection } = useClient();
  return useSyncExternalStore(connection.subscribe, connection.getSnapshot, connection.getSnapshot);
}

/** How much comes; renders once a second. */
export function useStats(): StatsSnapshot {
  const { stats } = useClient();
  return useSyncExternalStore(stats.subscribe, stats.getSnapshot, stats.getSnapshot);
}
