/** Apollo Client, urql and Relay's network layer take our client in place of graphql-ws's. */

import { ApolloClient, gql, InMemoryCache } from "@apollo/client";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { Client as UrqlClient, subscriptionExchange, type ExchangeIO } from "@urql/core";
import {
  ApolloClient as ApolloClient3,
  gql as gql3,
  InMemoryCache as InMemoryCache3,
} from "apollo-client-3/core";
import { GraphQLWsLink as GraphQLWsLink3 } from "apollo-client-3/link/subscriptions";
import type { Client as GraphqlWsClient } from "graphql-ws";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import {
  createGraphqlClient,
  type GraphqlClient,
  type GraphqlResult,
} from "../ts/graphql/index.js";
import type { PvClient } from "../ts/index.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, runPromises } from "./fake_relay.js";
import { until } from "./until.js";

let pvs: PvClient;
let client: GraphqlClient;

beforeEach(async () => {
  // Apollo's link compares errors with it, and Node 20 has none.
  vi.stubGlobal("WebSocket", { CLOSED: 3 });
  pvs = fakeClient();
  client = createGraphqlClient(pvs);
  await pvs.ready;
  for (const name of GOLDEN_NAMES) pvs.pv(name).subscribe(() => undefined);
  pvs.pv("loc://n(1)").subscribe(() => undefined);
  FakeSocket.last.open();
  await runPromises();
  FakeSocket.last.answer("snapshot", "subscribe");
});

afterEach(() => {
  client.dispose();
  pvs.dispose();
  vi.unstubAllGlobals();
});

const TEMP =
  'subscription { subscribeChannel(id: "TEMP") { id value { float } status { quality } } }';

const firstOfTemp = {
  subscribeChannel: { id: "ca://TEMP", value: { float: 21.5 }, status: { quality: "VALID" } },
};

const PUT = `mutation Put($value: String!) {
  putChannels(ids: ["loc://n"], values: [$value]) { id value { string } }
}`;

/** What the tests use of a version of Apollo Client. */
interface Apollo {
  subscribe(
    document: string,
    fetchPolicy: "no-cache" | "network-only",
    options: object,
    next: (data: unknown) => void,
  ): { unsubscribe: () => void };
  query(document: string): Promise<unknown>;
  /** The data, and the message of the error if there is one. */
  mutate(
    document: string,
    variables: Record<string, unknown>,
  ): Promise<readonly [data: unknown, error?: string]>;
}

/** `of` are options of the client. */
function apollo4(of: object = {}): Apollo {
  const client4 = new ApolloClient({
    link: new GraphQLWsLink(client),
    cache: new InMemoryCache(),
    ...of,
  });
  return {
    subscribe: (document, fetchPolicy, options, next) =>
      client4.subscribe({ query: gql(document), fetchPolicy, ...options }).subscribe(({ data }) => {
        next(data);
      }),
    query: async (document) => (await client4.query({ query: gql(document) })).data,
    mutate: async (document, variables) => {
      const options = { variables, errorPolicy: "all" } as const;
      const { data, error } = await client4.mutate({ mutation: gql(document), ...options });
      return error === undefined ? [data] : [data, error.message];
    },
  };
}

function apollo3(of: object = {}): Apollo {
  const client3 = new ApolloClient3({
    link: new GraphQLWsLink3(client),
    cache: new InMemoryCache3(),
    ...of,
  });
  return {
    subscribe: (document, fetchPolicy, options, next) =>
      client3
        .subscribe<unknown>({ query: gql3(document), fetchPolicy, ...options })
        .subscribe(({ data }) => {
          next(data);
        }),
    query: async (document) => (await client3.query<unknown>({ query: gql3(document) })).data,
    mutate: async (document, variables) => {
      const options = { variables, errorPolicy: "all" } as const;
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- of the next version
      const { data, errors } = await client3.mutate<unknown>({
        mutation: gql3(document),
        ...options,
      });
      return errors === undefined ? [data] : [data, errors[0]?.message ?? ""];
    },
  };
}

describe.each([
  ["3", apollo3],
  ["4", apollo4],
])("Apollo Client %s", (_, apollo) => {
  it.each(["no-cache", "network-only"] as const)(
    "shows a subscription as it goes on, with fetch policy %s",
    async (fetchPolicy) => {
      const received: unknown[] = [];
      const subscription = apollo().subscribe(TEMP, fetchPolicy, {}, (data) => received.push(data));
      await until(() => {
        expect(received).toHaveLength(1);
      });
      expect(received[0]).toMatchObject(firstOfTemp);
      FakeSocket.last.frame("update");
      await until(() => {
        expect(received).toHaveLength(2);
      });
      expect(received[1]).toMatchObject({
        subscribeChannel: { value: { float: 81 }, status: { quality: "ALARM" } },
      });
      subscription.unsubscribe();
    },
  );

  it.each([
    ["of the client", { queryDeduplication: false }, {}],
    ["of the subscription", {}, { context: { queryDeduplication: false } }],
  ])(
    "gives a second equal subscription a whole first result, by an option %s",
    async (_, of, own) => {
      const shared = apollo(of);
      const received: unknown[][] = [[], []];
      const subscribe = (at: number): { unsubscribe: () => void } =>
        shared.subscribe(TEMP, "no-cache", own, (data) => received[at]?.push(data));
      const first = subscribe(0);
      await until(() => {
        expect(received[0]).toMatchObject([firstOfTemp]);
      });
      const second = subscribe(1);
      await until(() => {
        expect(received[1]).toMatchObject([firstOfTemp]);
      });
      FakeSocket.last.frame("update");
      await until(() => {
        expect(received.map((results) => results.length)).toEqual([2, 2]);
      });
      first.unsubscribe();
      second.unsubscribe();
    },
  );

  it("runs queries and mutations over the same link", async () => {
    const [put] = await apollo().mutate(PUT, { value: "5" });
    expect(put).toMatchObject({ putChannels: [{ id: "loc://n", value: { string: "5" } }] });
    const data = await apollo().query('{ getChannel(id: "loc://n") { id value { float } } }');
    expect(data).toMatchObject({ getChannel: { value: { float: 5 } } });
  });

  it("is told what is wrong", async () => {
    await expect(apollo().query("{ getChannel { id } }")).rejects.toThrow(
      /argument "id" of type "ID!" is required/,
    );
    const [data, error] = await apollo().mutate(PUT, { value: "x" });
    expect(data).toMatchObject({ putChannels: [null] });
    expect(error).toMatch(/is not a number/);
  });
});

describe("urql", () => {
  const urql = (): UrqlClient =>
    new UrqlClient({
      url: "none",
      preferGetMethod: false,
      exchanges: [
        subscriptionExchange({
          enableAllOperations: true,
          forwardSubscription: (request) => ({
            subscribe: (sink) => ({
              unsubscribe: client.subscribe(
                { ...request, query: request.query ?? "" },
                sink as Parameters<GraphqlClient["subscribe"]>[1],
              ),
            }),
          }),
        }),
      ] as (() => ExchangeIO)[],
    });

  it("shows a subscription as it goes on", async () => {
    const received: unknown[] = [];
    const subscription = urql()
      .subscription(TEMP, {})
      .subscribe((result) => received.push(result.data));
    await until(() => {
      expect(received).toHaveLength(1);
    });
    expect(received[0]).toMatchObject(firstOfTemp);
    FakeSocket.last.frame("update");
    await until(() => {
      expect(received).toHaveLength(2);
    });
    subscription.unsubscribe();
  });

  it("gives a second equal subscription a whole first result, by another variable", async () => {
    const shared = urql();
    const received: unknown[][] = [[], []];
    const subscribe = (component: number): { unsubscribe: () => void } =>
      shared
        .subscription(TEMP, { component })
        .subscribe(({ data }) => received[component]?.push(data));
    const first = subscribe(0);
    await until(() => {
      expect(received[0]).toMatchObject([firstOfTemp]);
    });
    const second = subscribe(1);
    await until(() => {
      expect(received[1]).toMatchObject([firstOfTemp]);
    });
    first.unsubscribe();
    second.unsubscribe();
  });

  it("runs queries and mutations over the same exchange", async () => {
    const put = await urql().mutation(PUT, { value: "7" }).toPromise();
    expect(put.data).toMatchObject({ putChannels: [{ value: { string: "7" } }] });
    const wrong = await urql().query("{ nothing }", {}).toPromise();
    expect(wrong.error?.graphQLErrors[0]?.message).toBe(
      'Cannot query field "nothing" on type "Query".',
    );
  });
});

describe("a network layer as Relay's", () => {
  it("takes results from subscribe", async () => {
    // What Relay's own documentation does with graphql-ws's client.
    const subscribe = (text: string): Promise<GraphqlResult> =>
      new Promise((resolve, reject) => {
        const sink = { next: resolve, error: reject, complete: (): void => undefined };
        client.subscribe({ operationName: "T", query: text, variables: {} }, sink);
      });
    expect(await subscribe(TEMP.replace("subscription", "subscription T"))).toMatchObject({
      data: firstOfTemp,
    });
  });

  it("has the type of graphql-ws's client", () => {
    const same: GraphqlWsClient = client;
    expect(Object.keys(same)).toEqual([]);
  });
});
