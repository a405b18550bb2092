/** Client libraries of GraphQL, unmodified, each behind the same small interface for tests of a server. */

import {
  ApolloClient,
  ApolloLink,
  CombinedGraphQLErrors,
  gql,
  InMemoryCache,
} from "@apollo/client";
import { UnconventionalError } from "@apollo/client/errors";
import { HttpLink } from "@apollo/client/link/http";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { WebSocketLink } from "@apollo/client/link/ws";
import {
  Client as UrqlClient,
  fetchExchange,
  subscriptionExchange,
  type OperationResult,
} from "@urql/core";
import { OperationTypeNode } from "graphql";
import {
  createClient,
  type Client as WsClient,
  type ClientOptions,
  type FormattedExecutionResult,
  type Sink,
} from "graphql-ws";
import { SubscriptionClient } from "subscriptions-transport-ws";
import { WebSocket as NodeSocket } from "ws";

/** What a library hands to its user. */
export interface Result {
  readonly data?: unknown;
  readonly errors?: readonly { readonly message: string; readonly path?: unknown }[] | undefined;
}

export interface Library {
  /** Runs a query or a mutation. */
  run(query: string, variables?: Record<string, unknown>): Promise<Result>;
  /** Subscribes; returns a function that ends the subscription. */
  follow(
    query: string,
    variables: Record<string, unknown>,
    onResult: (result: Result) => void,
  ): () => void;
  dispose(): void;
}

/** A client of graphql-ws that connects again and again, and soon. */
export function graphqlWsClient(port: number, options: Partial<ClientOptions> = {}): WsClient {
  return createClient({
    url: `ws://127.0.0.1:${String(port)}/ws`,
    webSocketImpl: NodeSocket,
    retryAttempts: Infinity,
    // By default it gives up when the relay isn't there at the first attempt.
    shouldRetry: () => true,
    retryWait: async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
    },
    ...options,
  });
}

/** A refused operation comes as a list of errors, a lost connection as something else. */
function refused(error: unknown): Result {
  if (!Array.isArray(error)) throw error;
  return { errors: error as Result["errors"] };
}

function graphqlWs(port: number): Library {
  const client = graphqlWsClient(port);
  const follow: Library["follow"] = (query, variables, onResult) =>
    client.subscribe(
      { query, variables },
      {
        next: (result: FormattedExecutionResult) => {
          onResult(result);
        },
        error: (error) => {
          onResult(refused(error));
        },
        complete: () => undefined,
      },
    );
  return {
    follow,
    run: (query, variables = {}) =>
      new Promise((resolve) => {
        follow(query, variables, resolve);
      }),
    dispose: () => {
      void client.dispose();
    },
  };
}

function subscriptionsTransportWs(port: number): Library {
  const client = legacyClient(port);
  const follow: Library["follow"] = (query, variables, onResult) => {
    const { unsubscribe } = client.request({ query, variables }).subscribe({
      next: (result) => {
        onResult(result);
      },
      error: (error) => {
        onResult({ errors: [error] });
      },
    });
    return unsubscribe;
  };
  return {
    follow,
    run: (query, variables = {}) =>
      new Promise((resolve) => {
        follow(query, variables, resolve);
      }),
    dispose: () => {
      client.close();
    },
  };
}

function legacyClient(port: number): SubscriptionClient {
  const url = `ws://127.0.0.1:${String(port)}/ws`;
  return new SubscriptionClient(url, { reconnect: true }, NodeSocket);
}

function errorsOf(error: unknown): Result["errors"] {
  if (error === undefined) return undefined;
  if (error instanceof CombinedGraphQLErrors) return error.errors;
  // The older link passes the server's error on as it is.
  if (error instanceof UnconventionalError) return [error.cause as { message: string }];
  throw error as Error;
}

function apollo(link: ApolloLink, dispose: () => void): Library {
  const client = new ApolloClient({ link, cache: new InMemoryCache() });
  const policies = { fetchPolicy: "no-cache", errorPolicy: "all" } as const;
  return {
    run: async (text, variables = {}) => {
      const document = gql(text);
      const { data, error } = text.startsWith("mutation")
        ? await client.mutate({ mutation: document, variables, ...policies })
        : await client.query({ query: document, variables, ...policies });
      return { data, errors: errorsOf(error) };
    },
    follow: (text, variables, onResult) => {
      const results = client.subscribe({ query: gql(text), variables });
      const subscription = results.subscribe(({ data, error }) => {
        onResult({ data, errors: errorsOf(error) });
      });
      return () => {
        subscription.unsubscribe();
      };
    },
    dispose,
  };
}

/** HTTP for queries and mutations, graphql-ws for subscriptions: what Apollo's documentation recommends. */
function apolloOverBoth(port: number): Library {
  const socket = graphqlWsClient(port);
  const link = ApolloLink.split(
    ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
    new GraphQLWsLink(socket),
    new HttpLink({ uri: `http://127.0.0.1:${String(port)}/graphql` }),
  );
  return apollo(link, () => {
    void socket.dispose();
  });
}

/** Everything over the older subprotocol, as pages of Coniql's time do. */
function apolloOverLegacySocket(port: number): Library {
  const socket = legacyClient(port);
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  return apollo(new WebSocketLink(socket), () => {
    socket.close();
  });
}

function urql(port: number): Library {
  const socket = graphqlWsClient(port);
  const client = new UrqlClient({
    // By default urql sends queries with GET, which Coniql takes at this path.
    url: `http://127.0.0.1:${String(port)}/ws`,
    requestPolicy: "network-only",
    exchanges: [
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query = "", variables }) => ({
          subscribe: (sink) => ({
            unsubscribe: socket.subscribe(
              { query, variables: variables as Variables },
              sink as Sink,
            ),
          }),
        }),
      }),
    ],
  });
  const result = ({ data, error }: OperationResult): Result => {
    if (error?.networkError) throw error.networkError;
    return { data: data as unknown, errors: error?.graphQLErrors };
  };
  return {
    run: async (query, variables = {}) => {
      const isMutation = query.startsWith("mutation");
      const sent = isMutation ? client.mutation(query, variables) : client.query(query, variables);
      return result(await sent.toPromise());
    },
    follow: (query, variables, onResult) => {
      const subscription = client.subscription(query, variables).subscribe((given) => {
        onResult(result(given));
      });
      return () => {
        subscription.unsubscribe();
      };
    },
    dispose: () => {
      void socket.dispose();
    },
  };
}

type Variables = Record<string, unknown>;

export const LIBRARIES: Readonly<Record<string, (port: number) => Library>> = {
  "graphql-ws": graphqlWs,
  "subscriptions-transport-ws": subscriptionsTransportWs,
  "Apollo Client": apolloOverBoth,
  "Apollo Client over subscriptions-transport-ws": apolloOverLegacySocket,
  urql,
};
