/** Coniql's clients from npm, unmodified, use a real relay in its place, with a real IOC. */

import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

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
  type OperationResult,
  subscriptionExchange,
} from "@urql/core";
import { OperationTypeNode } from "graphql";
import {
  type Client as WsClient,
  type ClientOptions,
  createClient,
  type FormattedExecutionResult,
  type Sink,
} from "graphql-ws";
import { SubscriptionClient } from "subscriptions-transport-ws";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { WebSocket as NodeSocket } from "ws";

import { privateEpicsNetwork } from "../../testbed/ts/epics.js";
import { Relay } from "../../testbed/ts/relay.js";
import { SoftIoc } from "../../testbed/ts/soft_ioc.js";

/** What a library hands to its user. */
interface Result {
  readonly data?: unknown;
  readonly errors?: readonly { readonly message: string; readonly path?: unknown }[] | undefined;
}

interface Library {
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
function graphqlWsClient(port: number, options: Partial<ClientOptions> = {}): WsClient {
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

const LIBRARIES: Readonly<Record<string, (port: number) => Library>> = {
  "graphql-ws": graphqlWs,
  "subscriptions-transport-ws": subscriptionsTransportWs,
  "Apollo Client": apolloOverBoth,
  "Apollo Client over subscriptions-transport-ws": apolloOverLegacySocket,
  urql,
};

const names = Object.keys(LIBRARIES);

/** Each library has separate PVs. */
const RECORDS = names
  .map(
    (_, at) => `
      record(ao, "$(P):${String(at)}:AO") {
        field(VAL, "2.5") field(EGU, "V") field(PREC, "2") field(HIGH, "5") field(HSV, "MINOR")
        field(PINI, "YES") field(ASG, "OPERATOR")
      }
      record(stringout, "$(P):${String(at)}:TEXT") {
        field(VAL, "before") field(PINI, "YES") field(ASG, "OPERATOR")
      }
      record(ao, "$(P):${String(at)}:LOCKED") { field(VAL, "1") field(PINI, "YES") }
    `,
  )
  .join("");

/** Subscriptions of one client. */
const MOST = 20;

const prefix = `C${randomBytes(4).toString("hex")}`;
const record = (at: number, name: string): string => `${String(at)}:${name}`;
const pv = (at: number, name: string): string => `${prefix}:${record(at, name)}`;

let folder: string;
let ioc: SoftIoc;
let relay: Relay;
let libraries: Library[];

beforeAll(async () => {
  // Apollo's link compares errors with it, and Node 20 has none.
  vi.stubGlobal("WebSocket", NodeSocket);
  folder = await mkdtemp(path.join(tmpdir(), "pvwire-coniql-"));
  const database = path.join(folder, "records.db");
  await writeFile(database, RECORDS);
  const network = await privateEpicsNetwork();
  ioc = await SoftIoc.start(prefix, network, "ca", [database]);
  relay = await Relay.start(network, [
    "--coniql",
    // On a busy machine a PV is not reported as absent before it is found.
    "--not-found-after-ms=600000",
    "--enable-put",
    ...["AO", "LOCKED"].map((name) => `--allow-put=${prefix}:*:${name}`),
    `--max-subscriptions=${String(MOST)}`,
  ]);
  libraries = Object.values(LIBRARIES).map((start) => start(relay.port));
});

afterAll(async () => {
  for (const library of libraries) library.dispose();
  await relay.kill();
  await ioc.kill();
  await rm(folder, { recursive: true });
  vi.unstubAllGlobals();
});

const FIELDS = "id value { string(units: true) } status { quality mutable } display { precision }";
const GET = `query Read($id: ID!) { getChannel(id: $id, timeout: 20) { ${FIELDS} } }`;
const PUT = `mutation Put($ids: [ID!]!, $values: [String!]!) {
  putChannels(ids: $ids, values: $values, timeout: 20) { id value { string } }
}`;
/** Some libraries share the results of operations that are equal, so each has a name. */
const follow = (name: string): string =>
  `subscription ${name}($id: ID!) { subscribeChannel(id: $id) { ${FIELDS} } }`;
const FOLLOW = follow("Follow");

/** The channel of a PV that is connected. */
const complete = (id: string, value: string): unknown => ({
  id: `ca://${id}`,
  value: { string: value },
  status: { quality: "VALID", mutable: true },
  display: { precision: 2 },
});

/** Later results have null for what did not change. */
const changed = (id: string, value: string): unknown => ({
  id: `ca://${id}`,
  value: { string: value },
  status: null,
  display: null,
});

/** The channels that a subscription brought. */
class Followed {
  static #begun = 0;
  readonly results: Result[] = [];
  readonly end: () => void;

  constructor(library: Library, id: string) {
    Followed.#begun += 1;
    const query = follow(`Follow${String(Followed.#begun)}`);
    this.end = library.follow(query, { id }, (result) => this.results.push(result));
  }

  get channels(): unknown[] {
    return this.results.map(({ data, errors }) => {
      expect(errors).toBeUndefined();
      return (data as { subscribeChannel: unknown }).subscribeChannel;
    });
  }

  get last(): unknown {
    return this.channels.at(-1);
  }

  /** What a screen shows: null in a result leaves what was before. */
  get shown(): unknown {
    const parts = this.channels.flatMap((channel) => Object.entries(channel as object));
    return Object.fromEntries(parts.filter(([, part]) => part !== null));
  }
}

describe.each(names.map((name, at) => [name, at] as const))("%s", (_, at) => {
  const [ao, text, locked] = ["AO", "TEXT", "LOCKED"].map((name) => pv(at, name)) as [
    string,
    string,
    string,
  ];
  const library = (): Library => libraries[at] as Library;

  it("reads and writes PVs, and is told which puts failed", async () => {
    const read = await library().run(GET, { id: ao });
    expect(read.errors ?? []).toEqual([]);
    expect(read.data).toMatchObject({ getChannel: complete(ao, "2.50 V") });
    const put = await library().run(PUT, { ids: [ao, locked, text], values: ["3", "3", "x"] });
    expect(put.data).toMatchObject({
      putChannels: [{ id: `ca://${ao}`, value: { string: "3.00" } }, null, null],
    });
    expect(put.errors).toMatchObject([
      { path: ["putChannels", 1] },
      { path: ["putChannels", 2], extensions: { code: "NOT_ALLOWED" } },
    ]);
    expect(Number(await ioc.get(record(at, "AO")))).toBe(3);
    const wrong = await library().run("query Wrong { nosuch }");
    expect(wrong.errors).toMatchObject([{ message: expect.stringContaining("nosuch") as string }]);
    await ioc.put(record(at, "AO"), 2.5);
    const now = async (): Promise<unknown> => (await library().run(GET, { id: ao })).data;
    await expect.poll(now).toMatchObject({ getChannel: complete(ao, "2.50 V") });
  });

  it("follows PVs on one socket, each until it ends", async () => {
    const [first, second, other] = [ao, ao, text].map((id) => new Followed(library(), id)) as [
      Followed,
      Followed,
      Followed,
    ];
    await expect
      .poll(() => [first, second, other].map(({ results }) => results.length))
      .toEqual([1, 1, 1]);
    expect(first.last).toMatchObject(complete(ao, "2.50 V") as object);
    expect(other.last).toMatchObject({ value: { string: "before" }, display: { precision: null } });
    await ioc.put(record(at, "AO"), 3);
    await expect.poll(() => [first, second].map(({ results }) => results.length)).toEqual([2, 2]);
    for (const { last } of [first, second])
      expect(last).toMatchObject(changed(ao, "3.00 V") as object);
    second.end();
    await ioc.put(record(at, "AO"), 6);
    await expect.poll(() => first.results.length).toBe(3);
    expect(first.last).toMatchObject({
      value: { string: "6.00 V" },
      status: { quality: "WARNING" },
      display: null,
    });
    await ioc.put(record(at, "AO"), 2.5);
    await expect.poll(() => first.results.length).toBe(4);
    const again = new Followed(library(), ao);
    await expect.poll(() => again.results.length).toBe(1);
    expect(again.last).toMatchObject(complete(ao, "2.50 V") as object);
    expect(second.results).toHaveLength(2);
    expect(other.results).toHaveLength(1);
    for (const followed of [first, other, again]) followed.end();
  });
});

it("all show the PV after the restart of the IOC and of the relay", async () => {
  const all = libraries.map((library, at) => new Followed(library, pv(at, "AO")));
  const shown = (): unknown[] => all.map((followed) => followed.shown);
  const allComplete = (value: string): unknown[] =>
    all.map((_, at) => complete(pv(at, "AO"), value));
  await expect.poll(shown).toMatchObject(allComplete("2.50 V"));
  await ioc.kill();
  const lost = { value: { string: "2.50 V" }, status: { quality: "UNDEFINED" } };
  await expect.poll(shown).toMatchObject(all.map(() => lost));
  await ioc.restart();
  await expect.poll(shown).toMatchObject(allComplete("2.50 V"));
  await relay.kill();
  for (const at of all.keys()) await ioc.put(record(at, "AO"), 4);
  await relay.restart();
  await expect.poll(shown).toMatchObject(allComplete("4.00 V"));
  for (const { end } of all) end();
});

it("graphql-ws is told that it subscribes too many PVs", async () => {
  const client = graphqlWsClient(relay.port);
  const begin = async (): Promise<unknown> =>
    await new Promise((next, error) => {
      const variables = { id: pv(0, "AO") };
      client.subscribe({ query: FOLLOW, variables }, { next, error, complete: () => undefined });
    });
  for (let open = 0; open < MOST; open += 1) await begin();
  await expect(begin()).rejects.toMatchObject([
    { message: expect.stringContaining("max_subscriptions") as string },
  ]);
  await client.dispose();
});

it("graphql-ws of a page of a foreign origin is refused", async () => {
  class ForeignSocket extends NodeSocket {
    constructor(url: string, protocols: string) {
      super(url, protocols, { origin: "https://foreign.example.org" });
    }
  }
  const client = graphqlWsClient(relay.port, { webSocketImpl: ForeignSocket, retryAttempts: 0 });
  const refused = new Promise((next, error) => {
    const payload = { query: FOLLOW, variables: { id: pv(0, "AO") } };
    client.subscribe(payload, { next, error, complete: () => undefined });
  });
  await expect(refused).rejects.toMatchObject({ message: "Unexpected server response: 403" });
  await client.dispose();
});
