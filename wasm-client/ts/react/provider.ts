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
import type { PvClient, RelayUrl } from "../types.js";

/** How long a connection stays open after its last provider: navigation between pages keeps it. */
const GRACE_MS = 2000;

const ClientContext = createContext<PvClient | undefined>(undefined);

/** Either an existing client, or the address of one relay or several. */
export type PvProviderProps = {
  /** What uses the client. */
  children?: ReactNode;
} & (
  | {
      /** A client of the application, which also disposes of it. */
      client: PvClient;
      /** Not together with `client`. */
      url?: undefined;
      /** Not together with `client`. */
      urls?: undefined;
    }
  | {
      /** The address of the relay. */
      url: RelayUrl;
      /** Not together with `url`. */
      client?: undefined;
      /** Not together with `url`. */
      urls?: undefined;
    }
  | {
      /** The addresses of relays that serve the same PVs. */
      urls: readonly RelayUrl[];
      /** Not together with `urls`. */
      client?: undefined;
      /** Not together with `urls`. */
      url?: undefined;
    }
);

/**
 * Provides a client to the hooks below it. All providers of the same addresses share a client, which
 * ends shortly after the last of them. On a server there are no requests and no data.
 */
export function PvProvider({
  children,
  client,
  url,
  urls = [url ?? ""],
}: PvProviderProps): ReactNode {
  if (client !== undefined) {
    return createElement(ClientContext.Provider, { value: client }, children);
  }
  // Other addresses need another client.
  const key = JSON.stringify(urls);
  return createElement(SharedClient, { key, urls: key }, children);
}

/** `urls` is a list as JSON, which is equal for equal addresses. */
function SharedClient({ children, urls }: { children?: ReactNode; urls: string }): ReactNode {
  // A client does nothing before it is used: creating one in a render that React discards costs
  // nothing.
  const [shared, setShared] = useState(() => sharedClient(urls));
  useEffect(() => {
    // React keeps the state of a hidden tree for a long time; its client may have ended meanwhile.
    const present = sharedClient(urls);
    // eslint-disable-next-line react-hooks/set-state-in-effect -- the same, but for that one case
    setShared(present);
    return present.hold();
  }, [urls]);
  return createElement(ClientContext.Provider, { value: shared.client }, children);
}

interface Shared {
  readonly client: PvClient;
  /** Keeps the client until the returned function is called. */
  readonly hold: () => () => void;
}

const byUrls = new Map<string, Shared>();

function sharedClient(urls: string): Shared {
  const there = byUrls.get(urls);
  if (there !== undefined) return there;
  const client = createClient({ urls: JSON.parse(urls) as string[] });
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
          byUrls.delete(urls);
          client.dispose();
        }, GRACE_MS);
      };
    },
  };
  // A server renders for many users, who must not share data.
  if (typeof document === "object") byUrls.set(urls, shared);
  return shared;
}

/** The client of the nearest `PvProvider`. */
export function useClient(): PvClient {
  const client = useContext(ClientContext);
  if (client === undefined) throw new Error("pvwire hooks need a <PvProvider> around them");
  return client;
}

const numbers = new WeakMap<PvClient, number>();
let clients = 0;

/**
 * Identifies a PV of the nearest client. What a component keeps of one PV, such as typed text or
 * outcomes, must not be shown for another.
 */
export function usePvKey(name: string | undefined): string {
  const client = useClient();
  const number = numbers.get(client) ?? ++clients;
  numbers.set(client, number);
  return `${String(number)} ${name ?? ""}`;
}
