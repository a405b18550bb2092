/** Apps written for Coniql: with both versions of Apollo Client, and with urql. */

import { ApolloClient, gql, InMemoryCache } from "@apollo/client";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { Client as UrqlClient, subscriptionExchange, type ExchangeIO } from "@urql/core";
import {
  ApolloClient as ApolloClient3,
  gql as gql3,
  InMemoryCache as InMemoryCache3,
} from "apollo-client-3/core";
import { GraphQLWsLink as GraphQLWsLink3 } from "apollo-client-3/link/subscriptions";
import { createGraphqlClient } from "pvwire/graphql";

/** One app; the tests read what it shows. */
export interface App {
  query(document: string, variables?: Record<string, unknown>): Promise<unknown>;
  mutate(document: string, variables?: Record<string, unknown>): Promise<unknown>;
  /** Keeps the results in `results`. */
  subscribe(document: string, variables?: Record<string, unknown>): void;
  readonly results: unknown[];
}

declare global {
  interface Window {
    apps?: Readonly<Record<"apollo" | "apollo3" | "urql", App>>;
  }
}

const client = createGraphqlClient({ url: "/ws" });

function apolloApp(): App {
  const apollo = new ApolloClient({
    link: new GraphQLWsLink(client),
    cache: new InMemoryCache(),
    queryDeduplication: false,
  });
  const results: unknown[] = [];
  return {
    results,
    query: async (document, variables = {}) => {
      const options = { variables, fetchPolicy: "no-cache", errorPolicy: "all" } as const;
      const { data, error } = await apollo.query({ query: gql(document), ...options });
      return { data, error: error?.message };
    },
    mutate: async (document, variables = {}) => {
      const options = { variables, errorPolicy: "all" } as const;
      const { data, error } = await apollo.mutate({ mutation: gql(document), ...options });
      return { data, error: error?.message };
    },
    subscribe: (document, variables = {}) => {
      apollo
        .subscribe({ query: gql(document), variables, fetchPolicy: "no-cache" })
        .subscribe(({ data }) => results.push(data));
    },
  };
}

function apollo3App(): App {
  const apollo = new ApolloClient3({
    link: new GraphQLWsLink3(client),
    cache: new InMemoryCache3(),
    queryDeduplication: false,
  });
  const results: unknown[] = [];
  return {
    results,
    query: async (document, variables = {}) => {
      const options = { variables, fetchPolicy: "no-cache", errorPolicy: "all" } as const;
      try {
        // eslint-disable-next-line @typescript-eslint/no-deprecated -- of the next version
        const { data, errors } = await apollo.query<unknown>({ query: gql3(document), ...options });
        return { data, error: errors?.[0]?.message };
      } catch (error) {
        // This version rejects when a document can't be executed, whatever the policy.
        return { data: undefined, error: (error as Error).message };
      }
    },
    mutate: async (document, variables = {}) => {
      const options = { variables, errorPolicy: "all" } as const;
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- of the next version
      const { data, errors } = await apollo.mutate<unknown>({
        mutation: gql3(document),
        ...options,
      });
      return { data, error: errors?.[0]?.message };
    },
    subscribe: (document, variables = {}) => {
      apollo
        .subscribe<unknown>({ query: gql3(document), variables, fetchPolicy: "no-cache" })
        .subscribe(({ data }) => results.push(data));
    },
  };
}

function urqlApp(): App {
  const urql = new UrqlClient({
    url: "none",
    preferGetMethod: false,
    requestPolicy: "network-only",
    exchanges: [
      subscriptionExchange({
        enableAllOperations: true,
        forwardSubscription: (request) => ({
          subscribe: (sink) => ({
            unsubscribe: client.subscribe({ ...request, query: request.query ?? "" }, sink),
          }),
        }),
      }),
    ] as (() => ExchangeIO)[],
  });
  const results: unknown[] = [];
  return {
    results,
    query: async (document, variables = {}) => {
      const { data, error } = await urql.query<unknown>(document, variables).toPromise();
      return { data, error: error?.graphQLErrors[0]?.message };
    },
    mutate: async (document, variables = {}) => {
      const { data, error } = await urql.mutation<unknown>(document, variables).toPromise();
      return { data, error: error?.graphQLErrors[0]?.message };
    },
    subscribe: (document, variables = {}) => {
      urql.subscription<unknown>(document, variables).subscribe(({ data }) => results.push(data));
    },
  };
}

window.apps = { apollo: apolloApp(), apollo3: apollo3App(), urql: urqlApp() };
