/** The usual ways from a GraphQL server to a callback. Each takes one subscription a PV. */

import { ApolloClient, gql, InMemoryCache, type FetchPolicy } from "@apollo/client/core";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { createClient, type Client } from "graphql-ws";

import { subscription, type Channel, type PeerName } from "../pvs";

interface Result {
  readonly subscribeChannel: Channel;
}

/** Takes a channel's result. */
export type OnChannel = (pv: number, channel: Channel) => void;

export interface PeerOptions {
  readonly url: string;
  readonly webSocket: typeof WebSocket;
  readonly selection: string;
  readonly pvs: number;
  readonly onChannel: OnChannel;
}

/** Operations are numbered as the PVs are, so that messages can be made before. */
const numbered = (): (() => string) => {
  let next = 0;
  return () => String(next++);
};

const graphqlWs = ({ url, webSocket }: PeerOptions): ReturnType<typeof createClient> =>
  createClient({ url, webSocketImpl: webSocket, generateID: numbered(), lazy: false });

const STARTERS: Readonly<Record<PeerName, (options: PeerOptions) => void>> = {
  "JSON.parse": bare,

  "graphql-ws": (options) => {
    const client = graphqlWs(options);
    for (let pv = 0; pv < options.pvs; pv += 1) {
      client.subscribe<Result>(
        { query: subscription(options.selection), variables: { id: String(pv) } },
        {
          next: ({ data }) => {
            if (data != null) options.onChannel(pv, data.subscribeChannel);
          },
          error: fail,
          complete: () => undefined,
        },
      );
    }
  },

  "Apollo, no-cache": (options) => {
    apollo(options, "no-cache");
  },

  "Apollo, default cache": (options) => {
    apollo(options, "cache-first");
  },
};

export const startPeer = (name: PeerName, options: PeerOptions): void => {
  STARTERS[name](options);
};

/** The least that any client of such messages does. */
function bare({ onChannel, pvs, selection, url, webSocket }: PeerOptions): void {
  const socket = new webSocket(url, "graphql-transport-ws");
  socket.onopen = () => {
    socket.send('{"type":"connection_init"}');
  };
  socket.onmessage = ({ data }: MessageEvent<string>) => {
    const message = JSON.parse(data) as { type: string; id: string; payload: { data: Result } };
    if (message.type === "next") {
      onChannel(Number(message.id), message.payload.data.subscribeChannel);
      return;
    }
    const query = subscription(selection);
    for (let pv = 0; pv < pvs; pv += 1) {
      const payload = { query, variables: { id: String(pv) } };
      socket.send(JSON.stringify({ id: String(pv), type: "subscribe", payload }));
    }
  };
}

function apollo(options: PeerOptions, fetchPolicy: FetchPolicy): void {
  const ids = Array.from({ length: options.pvs }, (_, pv) => String(pv));
  subscribeWithApollo(graphqlWs(options), ids, options.selection, options.onChannel, fetchPolicy);
}

/** Apollo Client on a client of graphql-ws's kind, a subscription for each id. */
export function subscribeWithApollo(
  graphqlClient: Client,
  ids: readonly string[],
  selection: string,
  onChannel: OnChannel,
  fetchPolicy: FetchPolicy = "no-cache",
): void {
  const client = new ApolloClient({
    cache: new InMemoryCache(),
    link: new GraphQLWsLink(graphqlClient),
  });
  const query = gql(subscription(selection));
  ids.forEach((id, pv) => {
    client.subscribe<Result>({ query, variables: { id }, fetchPolicy }).subscribe({
      next: ({ data }) => {
        if (data != null) onChannel(pv, data.subscribeChannel);
      },
      error: fail,
    });
  });
}

function fail(error: unknown): void {
  throw error instanceof Error ? error : new Error(JSON.stringify(error));
}
