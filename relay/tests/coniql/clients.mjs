/**
 * Runs a client of GraphQL as its users have it, for a test: argument 1 is the folder with the packages, argument 2 the
 * relay's host and port, argument 3 a PV that may be written, argument 4 the client.
 *
 * The client subscribes the PV, writes it when the first result has come, waits for the new value and reads it. The output
 * is one line of JSON with what it saw.
 */
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { setTimeout } from "node:timers";

const [folder, host, pv, name] = process.argv.slice(2);
const require = createRequire(path.join(folder, "package.json"));
const url = `http://${host}/graphql`;
const socketUrl = `ws://${host}/ws`;

const FIELDS = "{ id value { float string(units: true) } status { quality } }";
const SUBSCRIPTION = `subscription Follow($id: ID!) { subscribeChannel(id: $id) ${FIELDS} }`;
const MUTATION = `mutation Put($ids: [ID!]!, $values: [String!]!) { putChannels(ids: $ids, values: $values) ${FIELDS} }`;
const QUERY = `query Read($id: ID!) { getChannel(id: $id) ${FIELDS} }`;
const NEW = "7.5";

function webSocketClient(version) {
  const { createClient } = require(version === 5 ? "graphql-ws-5" : "graphql-ws");
  return createClient({ url: socketUrl, webSocketImpl: require("ws").WebSocket });
}

/** The first result of an operation over the WebSocket. */
async function once(client, query, variables) {
  for await (const result of client.iterate({ query, variables })) return result.data;
  throw new Error("no result");
}

function ofGraphqlWs(version) {
  const client = webSocketClient(version);
  return {
    subscribe: (next, error) =>
      client.subscribe(
        { query: SUBSCRIPTION, variables: { id: pv } },
        { next: (result) => next(result.data), error, complete() {} },
      ),
    mutate: () => once(client, MUTATION, { ids: [pv], values: [NEW] }),
    query: () => once(client, QUERY, { id: pv }),
    end: () => client.dispose(),
  };
}

function ofApollo(version) {
  const base = version === 3 ? "apollo-client-3" : "@apollo/client";
  const { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } = require(`${base}/core`);
  const { GraphQLWsLink } = require(`${base}/link/subscriptions`);
  const { getMainDefinition } = require(`${base}/utilities`);
  const socket = webSocketClient(version === 3 ? 5 : 6);
  const isSubscription = ({ query }) => getMainDefinition(query).operation === "subscription";
  const link = ApolloLink.split(isSubscription, new GraphQLWsLink(socket), new HttpLink({ uri: url }));
  const client = new ApolloClient({ link, cache: new InMemoryCache() });
  return {
    subscribe(next, error) {
      const results = client.subscribe({ query: gql(SUBSCRIPTION), variables: { id: pv }, fetchPolicy: "no-cache" });
      results.subscribe({ next: (result) => (result.error ? error(result.error) : next(result.data)), error });
    },
    mutate: async () => (await client.mutate({ mutation: gql(MUTATION), variables: { ids: [pv], values: [NEW] } })).data,
    query: async () =>
      (await client.query({ query: gql(QUERY), variables: { id: pv }, fetchPolicy: "network-only" })).data,
    end: () => socket.dispose(),
  };
}

function ofUrql() {
  const { Client, fetchExchange, subscriptionExchange } = require("@urql/core");
  const socket = webSocketClient(6);
  const forward = subscriptionExchange({
    forwardSubscription: (request) => ({
      subscribe: (sink) => ({
        unsubscribe: socket.subscribe({ query: request.query ?? "", variables: request.variables }, sink),
      }),
    }),
  });
  // By POST and, for queries, by GET.
  const client = new Client({ url, exchanges: [fetchExchange, forward], preferGetMethod: true });
  const data = (result) => {
    if (result.error) throw result.error;
    return result.data;
  };
  return {
    subscribe: (next, error) =>
      client.subscription(SUBSCRIPTION, { id: pv }).subscribe((result) => {
        if (result.error) error(result.error);
        else next(result.data);
      }),
    mutate: async () => data(await client.mutation(MUTATION, { ids: [pv], values: [NEW] }).toPromise()),
    query: async () => data(await client.query(QUERY, { id: pv }).toPromise()),
    end: () => socket.dispose(),
  };
}

/** What relay-compiler makes of a document with one field and these variables. */
function artifact(kind, operation, field, text, variables) {
  const scalar = (each, args) => ({ alias: null, args: args ?? null, kind: "ScalarField", name: each, storageKey: null });
  const object = (each, concreteType, selections) => ({
    alias: null,
    args: null,
    concreteType,
    kind: "LinkedField",
    name: each,
    plural: false,
    selections,
    storageKey: null,
  });
  const argumentDefinitions = variables.map((each) => ({ defaultValue: null, kind: "LocalArgument", name: each }));
  const selections = [
    {
      alias: null,
      args: variables.map((each) => ({ kind: "Variable", name: each, variableName: each })),
      concreteType: "Channel",
      kind: "LinkedField",
      name: field,
      plural: kind === "mutation",
      selections: [
        scalar("id"),
        object("value", "ChannelValue", [
          scalar("float"),
          scalar("string", [{ kind: "Literal", name: "units", value: true }]),
        ]),
        object("status", "ChannelStatus", [scalar("quality")]),
      ],
      storageKey: null,
    },
  ];
  const type = { query: "Query", mutation: "Mutation", subscription: "Subscription" }[kind];
  return {
    fragment: { argumentDefinitions, kind: "Fragment", metadata: null, name: operation, selections, type, abstractKey: null },
    kind: "Request",
    operation: { argumentDefinitions, kind: "Operation", name: operation, selections },
    params: { cacheID: operation, id: null, metadata: {}, name: operation, operationKind: kind, text },
  };
}

function ofRelay() {
  const relay = require("relay-runtime");
  const socket = webSocketClient(6);
  const fetchData = async ({ text }, variables) => {
    const response = await globalThis.fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: text, variables }),
    });
    return response.json();
  };
  const follow = ({ text, name: operationName }, variables) =>
    relay.Observable.create((sink) => socket.subscribe({ query: text, operationName, variables }, sink));
  const environment = new relay.Environment({
    network: relay.Network.create(fetchData, follow),
    store: new relay.Store(new relay.RecordSource()),
  });
  const subscription = artifact("subscription", "Follow", "subscribeChannel", SUBSCRIPTION, ["id"]);
  return {
    subscribe: (next, error) =>
      relay.requestSubscription(environment, {
        subscription,
        variables: { id: pv },
        onNext: (data) => next(data),
        onError: error,
      }),
    mutate: () =>
      new Promise((resolve, reject) => {
        relay.commitMutation(environment, {
          mutation: artifact("mutation", "Put", "putChannels", MUTATION, ["ids", "values"]),
          variables: { ids: [pv], values: [NEW] },
          onCompleted: resolve,
          onError: reject,
        });
      }),
    query: () =>
      relay.fetchQuery(environment, artifact("query", "Read", "getChannel", QUERY, ["id"]), { id: pv }).toPromise(),
    end: () => socket.dispose(),
  };
}

const CLIENTS = {
  "graphql-ws 5": () => ofGraphqlWs(5),
  "graphql-ws 6": () => ofGraphqlWs(6),
  "Apollo 3": () => ofApollo(3),
  "Apollo 4": () => ofApollo(4),
  urql: ofUrql,
  "relay-runtime": ofRelay,
};

const client = CLIENTS[name]();
const seen = {};
await new Promise((resolve, reject) => {
  client.subscribe((data) => {
    const channel = data?.subscribeChannel;
    if (typeof channel?.value?.float !== "number") return;
    if (seen.first === undefined) {
      seen.first = channel;
      client.mutate().then((written) => {
        seen.written = written.putChannels[0];
      }, reject);
    } else if (channel.value.float === Number(NEW)) {
      seen.next = channel.value;
    }
    if (seen.next !== undefined) resolve();
  }, reject);
});
while (seen.written === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
seen.read = (await client.query()).getChannel;
process.stdout.write(`${JSON.stringify(seen)}\n`);
await client.end();
process.exit(0);

