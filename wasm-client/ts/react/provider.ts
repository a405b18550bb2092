/** The client of a component tree. Providers with the same address share one. */

import {
  createContext,
  createElement,
  useContext,
  useEffect,
  useState,
  type ReactNode,
} from "react";

import { createClient } from "../index.js";
import type { PvClient } from "../types.js";

/** How long a connection stays open after its last provider: navigation between pages keeps it. */
const GRACE_MS = 2000;

const ClientContext = createContext<PvClient | undefined>(undefined);

/** Either an existing client, or the relay's address. */
export type PvProviderProps = { children?: ReactNode } & (
  { client: PvClient; url?: undefined } | { url: string | URL; client?: undefined }
);

/**
 * Provides a client to the hooks below it. All providers of one address share a client, which ends
 * shortly after the last of them. On a server there are no requests and no data.
 */
export function PvProvider({ children, client, url }: PvProviderProps): ReactNode {
  if (client !== undefined) {
    return createElement(ClientContext.Provider, { value: client }, children);
  }
  // Another address needs another client.
  return createElement(SharedClient, { key: String(url), url: String(url) }, children);
}

function SharedClient({ children, url }: { children?: ReactNode; url: string }): ReactNode {
  // A client does nothing before it is used: creating one in a render that React discards costs
  // nothing.
  const [shared, setShared] = useState(() => sharedClient(url));
  useEffect(() => {
    // React keeps the state of a hidden tree for a long time; its client may have ended meanwhile.
    const present = sharedClient(url);
    // eslint-disable-next-line react-hooks/set-state-in-effect -- the same, but for that one case
    setShared(present);
    return present.hold();
  }, [url]);
  return createElement(ClientContext.Provider, { value: shared.client }, children);
}

interface Shared {
  readonly client: PvClient;
  /** Keeps the client until the returned function is called. */
  readonly hold: () => () => void;
}

const byUrl = new Map<string, Shared>();

function sharedClient(url: string): Shared {
  const there = byUrl.get(url);
  if (there !== undefined) return there;
  const client = createClient({ url });
  let holders = 0;
  let end: ReturnType<typeof setTimeout> | undefined;
  const shared: Shared = {
    client,
    hold: () => {
      holders += 1;
      clearTimeout(end);
      return () => {
        holders -= 1;
        if (holders > 0) return;
        end = setTimeout(() => {
          byUrl.delete(url);
          client.dispose();
        }, GRACE_MS);
      };
    },
  };
  // A server renders for many users, who must not share data.
  if (typeof document === "object") byUrl.set(url, shared);
  return shared;
}

/** The client of the nearest `PvProvider`. */
export function useClient(): PvClient {
  const client = useContext(ClientContext);
  if (client === undefined) throw new Error("pvwire hooks need a <PvProvider> around them");
  return client;
}
