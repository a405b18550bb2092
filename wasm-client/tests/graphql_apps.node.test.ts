/** Apollo Client, urql and Relay's network layer take our client in place of graphql-ws's. */

import { ApolloClient, gql, InMemoryCache } from "@apollo/client";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { Client as UrqlClient, subscriptionExchange, type ExchangeIO } from "@urql/core";
import type { Client as GraphqlWsClient } from "graphql-ws";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import {
  createGraphqlClient,
  type GraphqlClient,
  type GraphqlResult,
} from "../ts/graphql/index.js";
import type { PvClient } from "../ts/index.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, settle } from "./fake_relay.js";
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
  await settle();
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

describe("Apollo Client", () => {
  const apollo = (): ApolloClient =>
    new ApolloClient({ link: new GraphQLWsLink(client), cache: new InMemoryCache() });

  it.each(["no-cache", "network-only"] as const)(
    "shows a subscription as it goes on, with fetch policy %s",
    async (fetchPolicy) => {
      const told: unknown[] = [];
      const subscription = apollo()
        .subscribe({ query: gql(TEMP), fetchPolicy })
        .subscribe((result) => told.push(result.data));
      await until(() => {
        expect(told).toHaveLength(1);
      });
      expect(told[0]).toMatchObject(firstOfTemp);
      FakeSocket.last.frame("update");
      await until(() => {
        expect(told).toHaveLength(2);
      });
      expect(told[1]).toMatchObject({
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
      const link = new GraphQLWsLink(client);
      const shared = new ApolloClient({ link, cache: new InMemoryCache(), ...of });
      const told: unknown[][] = [[], []];
      const subscribe = (at: number): { unsubscribe: () => void } =>
        shared
          .subscribe({ query: gql(TEMP), fetchPolicy: "no-cache", ...own })
          .subscribe(({ data }) => told[at]?.push(data));
      const first = subscribe(0);
      await until(() => {
        expect(told[0]).toMatchObject([firstOfTemp]);
      });
      const second = subscribe(1);
      await until(() => {
        expect(told[1]).toMatchObject([firstOfTemp]);
      });
      FakeSocket.last.frame("update");
      await until(() => {
        expect(told.map((results) => results.length)).toEqual([2, 2]);
      });
      first.unsubscribe();
      second.unsubscribe();
    },
  );

  it("runs queries and mutations over the same link", async () => {
    const put = await apollo().mutate({ mutation: gql(PUT), variables: { value: "5" } });
    expect(put.data).toMatchObject({ putChannels: [{ id: "loc://n", value: { string: "5" } }] });
    const query = gql`
      {
        getChannel(id: "loc://n") {
          id
          value {
            float
          }
        }
      }
    `;
    const { data } = await apollo().query({ query });
    expect(data).toMatchObject({ getChannel: { value: { float: 5 } } });
  });

  it("is told what is wrong", async () => {
    const query = gql("{ getChannel { id } }");
    await expect(apollo().query({ query })).rejects.toThrow(
      /argument "id" of type "ID!" is required/,
    );
    const failed = await apollo().mutate({
      mutation: gql(PUT),
      variables: { value: "x" },
      errorPolicy: "all",
    });
    expect(failed.data).toMatchObject({ putChannels: [null] });
    expect(failed.error?.message).toMatch(/is not a number/);
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
    const told: unknown[] = [];
    const subscription = urql()
      .subscription(TEMP, {})
      .subscribe((result) => told.push(result.data));
    await until(() => {
      expect(told).toHaveLength(1);
    });
    expect(told[0]).toMatchObject(firstOfTemp);
    FakeSocket.last.frame("update");
    await until(() => {
      expect(told).toHaveLength(2);
    });
    subscription.unsubscribe();
  });

  it("gives a second equal subscription a whole first result, by another variable", async () => {
    const shared = urql();
    const told: unknown[][] = [[], []];
    const subscribe = (component: number): { unsubscribe: () => void } =>
      shared.subscription(TEMP, { component }).subscribe(({ data }) => told[component]?.push(data));
    const first = subscribe(0);
    await until(() => {
      expect(told[0]).toMatchObject([firstOfTemp]);
    });
    const second = subscribe(1);
    await until(() => {
      expect(told[1]).toMatchObject([firstOfTemp]);
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
