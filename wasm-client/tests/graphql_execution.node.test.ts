/** Documents give the same results as GraphQL's reference implementation on the same data. */

import {
  buildClientSchema,
  buildSchema,
  execute,
  getIntrospectionQuery,
  graphql,
  graphqlSync,
  parse,
  type IntrospectionQuery,
} from "graphql";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { createGraphqlClient, schemaSdl, type GraphqlClient } from "../ts/graphql/index.js";
import type { PvClient, PvData } from "../ts/index.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, settle } from "./fake_relay.js";

const schema = buildSchema(schemaSdl);

let pvs: PvClient;
let client: GraphqlClient;

beforeEach(async () => {
  vi.useFakeTimers();
  pvs = fakeClient();
  client = createGraphqlClient(pvs);
  await pvs.ready;
  for (const name of GOLDEN_NAMES) pvs.pv(name).subscribe(() => undefined);
  FakeSocket.last.open();
  await settle();
  FakeSocket.last.answer("snapshot", "subscribe");
  vi.advanceTimersByTime(300);
});

afterEach(() => {
  client.dispose();
  pvs.dispose();
  vi.useRealTimers();
});

/** What the schema's fields resolve to, by the PV's data as the rest of the package shows it. */
function channel(name: string): unknown {
  const pv = pvs.pv(name).getSnapshot() as PvData;
  const { display, status, time, value } = pv;
  const units =
    display === null || ["Enum", "String"].includes(display.type) ? null : display.units;
  return {
    ...pv,
    value: value && {
      ...value,
      string: (args: { units: boolean }) =>
        args.units && units !== null && units !== "" ? `${value.string} ${units}` : value.string,
      base64Array: null,
      stringArray: ({ length }: { length: number }) =>
        value.array instanceof Float64Array
          ? Array.from(value.array, String).slice(0, length || undefined)
          : null,
      table: null,
    },
    time,
    display: display && {
      ...display,
      units,
      role: status.mutable ? "RW" : "RO",
      widget: status.mutable ? "TEXTINPUT" : "TEXTUPDATE",
    },
  };
}

const many = ({ ids }: { ids: readonly string[] }): unknown[] => ids.map(channel);

const rootValue = {
  getChannel: ({ id }: { id: string }): unknown => channel(id),
  getChannels: many,
  // Asked after our own have put.
  putChannels: many,
  subscribeChannel: ({ id }: { id: string }): unknown => channel(id),
};

async function both(
  query: string,
  variables?: Record<string, unknown>,
): Promise<{ ours: unknown; theirs: unknown }> {
  let ours: unknown;
  const stop = client.subscribe(
    { query, variables },
    {
      next: (result) => (ours ??= result),
      error: (error) => (ours ??= error),
      complete: () => undefined,
    },
  );
  await settle();
  await settle();
  stop();
  const theirs = await execute({
    schema,
    document: parse(query),
    rootValue,
    variableValues: variables,
  });
  return { ours: plain(ours), theirs: plain(theirs) };
}

/** Without what JSON doesn't show, but with the order of the keys. */
const plain = (value: unknown): string => JSON.stringify(value, undefined, 1);

const ALL = `
  id
  value { float string withUnits: string(units: true) stringArray base64Array { base64 } text exact }
  time { datetime seconds nanoseconds userTag }
  status { quality message mutable severity alarmStatus writable }
  display {
    description role widget units precision form choices type elementCount typeId
    controlRange { min max } displayRange { min max } alarmRange { ...range } warningRange { ...range }
  }
  connection { state connected since readable reason }
  skipped
  __typename
`;

describe("the first result of a subscription", () => {
  it.each(GOLDEN_NAMES)("has every field of %s", async (name) => {
    const query = `
      subscription($id: ID!) { subscribeChannel(id: $id) { ${ALL} } }
      fragment range on Range { min max __typename }
    `;
    if (name === "LATE") return;
    const { ours, theirs } = await both(query, { id: name });
    expect(ours).toEqual(theirs);
  });

  it.each<[string, Record<string, unknown>?]>([
    ['subscription { a: subscribeChannel(id: "TEMP") { x: id y: id id } }'],
    [
      `subscription { ...one ...two }
       fragment one on Subscription { subscribeChannel(id: "TEMP") { value { float } time { seconds } } }
       fragment two on Subscription { subscribeChannel(id: "TEMP") { id value { string float } } }`,
    ],
    [
      `subscription($all: Boolean!, $none: Boolean = false, $id: ID = "MODE") {
         subscribeChannel(id: $id) {
           id @include(if: $all)
           value @skip(if: $all) { float }
           ... @include(if: $none) { skipped }
           ... on Channel @skip(if: $none) { status { quality } }
           ...rest @include(if: $all)
           time { seconds @include(if: true) @skip(if: true) nanoseconds }
         }
       }
       fragment rest on Channel { display { choices units } }`,
      { all: true },
    ],
    [
      `subscription($all: Boolean!) {
         subscribeChannel(id: "TEXT") { id @include(if: $all) value @skip(if: $all) { float text } }
       }`,
      { all: false },
    ],
    [
      `subscription($u: Boolean) { subscribeChannel(id: "TEMP") { value { string(units: $u) } } }`,
      {},
    ],
    [
      `subscription($u: Boolean) { subscribeChannel(id: "TEMP") { value { string(units: $u) } } }`,
      { u: true },
    ],
    ['subscription { __typename @include(if: false) subscribeChannel(id: "TEMP") { __typename } }'],
    ['subscription { subscribeChannel(id: "TEMP") { value { float @skip(if: true) } id } }'],
  ])("is what the reference gives for %s", async (query, variables) => {
    const { ours, theirs } = await both(query, variables);
    expect(ours).toEqual(theirs);
  });
});

/** One document with what may be in any, and the operation's name and variables. */
type Request = [
  query: string,
  operationName?: string | undefined,
  variables?: Record<string, unknown>,
];

const TWO = `
  query A($id: ID = "loc://n", $units: Boolean! = false) {
    getChannel(id: $id) { id value { string(units: $units) } }
  }
  query B($ids: [ID!]! = ["loc://n", "loc://s"]) { all: getChannels(ids: $ids) { ...id } }
  mutation C($ids: [ID!]!, $values: [String!]!) {
    first: putChannels(ids: $ids, values: $values, timeout: 1) { id value { float string } }
    again: putChannels(ids: $ids, values: $values, timeout: 1) { ...id }
  }
  fragment id on Channel { id __typename }
`;

const REQUESTS: readonly Request[] = [
  // Operations by name.
  [TWO, "A"],
  [TWO, "B"],
  [TWO],
  [TWO, "D"],
  [TWO, ""],
  ["fragment f on Channel { id }"],
  // Variables: defaults, coercion and what doesn't fit.
  [TWO, "A", { id: "loc://s" }],
  [TWO, "A", { id: "loc://s", units: true, unknown: 1 }],
  [TWO, "A", { id: null }],
  [TWO, "A", { units: null }],
  [TWO, "A", { id: 1.5, units: "true" }],
  [TWO, "B", { ids: "loc://a" }],
  [TWO, "B", { ids: [] }],
  [TWO, "B", { ids: ["loc://n", null, [1], 2.5] }],
  [TWO, "C", { ids: ["loc://n"], values: ["7"] }],
  [TWO, "C", { ids: "loc://n", values: "8" }],
  [TWO, "C"],
  [TWO, "C", { ids: null, values: [1, true] }],
  // Literals: lists, block strings, escapes.
  ['{ getChannels(ids: "loc://n") { id } }'],
  ['{ getChannels(ids: ["loc://n", "loc://a"]) { id value { stringArray(length: 1) } } }'],
  ['{ getChannels(ids: [["loc://n"]]) { id } }'],
  ["query($x: [[ID!]!]!) { getChannels(ids: $x) { id } }", undefined, { x: [["a"]] }],
  ['{ getChannel(id: """\n      loc://n\n    """) { id } }'],
  ['{ getChannel(id: "loc:\\u002f\\u{2F}\\u006E") { id } }'],
  [
    'mutation { putChannels(ids: ["loc://s"], values: ["\\uD83D\\uDE00 \\u00fc\\n\\"\\\\"]) { value { string } } }',
  ],
  [
    'mutation { putChannels(ids: ["loc://s"], values: ["""\n    a\n      \\""" b\n  """]) { value { string } } }',
  ],
  // Aliases, fragments, directives, lists of objects in each other.
  ['{ a: getChannel(id: "loc://n") { b: id c: value { d: float } } b: __typename }'],
  [
    'query($no: Boolean!) { getChannels(ids: ["loc://n", "loc://s"]) { id @skip(if: $no) ... on Channel @include(if: $no) { value { __typename float } } } a: __typename @include(if: $no) }',
    undefined,
    { no: true },
  ],
  [
    '{ getChannel(id: "loc://n") { id } ... on Query { getChannel(id: "loc://n") { value { float } } ...f } } fragment f on Query { getChannel(id: "loc://n") { value { string } } }',
  ],
  // Many errors at once.
  ["query Q($a: Int, $b: Nope) { getChannel(id: [1]) { vale } getChannels { id } ...g @nope }"],
];

describe("a request", () => {
  beforeEach(async () => {
    for (const name of ["n(1.5)", 's("text")', "a([1,2])"]) {
      pvs.pv(`loc://${name}`).subscribe(() => undefined);
    }
    for (const name of ["n", "s", "a"]) pvs.pv(`loc://${name}`).subscribe(() => undefined);
    await settle();
  });

  it.each(REQUESTS)("is answered as the reference does: %s %s %j", async (...request) => {
    const [query, operationName, variables] = request;
    const ours = await client.execute({ query, operationName, variables });
    const theirs = await graphql({
      schema,
      source: query,
      rootValue,
      operationName,
      variableValues: variables,
    });
    expect(plain(ours)).toEqual(plain(theirs));
  });
});

describe("introspection", () => {
  const withoutDescriptions = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (key, held: unknown) => {
      if (key === "description") return undefined;
      const named = (entry: unknown): entry is { name: string } =>
        typeof entry === "object" && entry !== null && "name" in entry;
      if ((key === "types" || key === "directives") && Array.isArray(held) && held.every(named)) {
        return [...held].sort((a, b) => a.name.localeCompare(b.name));
      }
      return held;
    }) as unknown;

  it("says of the schema what the reference says", async () => {
    const options = {
      specifiedByUrl: true,
      directiveIsRepeatable: true,
      schemaDescription: true,
      inputValueDeprecation: true,
      oneOf: true,
    };
    const query = getIntrospectionQuery(options);
    const { data, errors } = await client.execute({ query });
    expect(errors).toBeUndefined();
    const reference = graphqlSync({ schema, source: query }).data as unknown as IntrospectionQuery;
    expect(withoutDescriptions(data)).toEqual(withoutDescriptions(reference));
    const ours = data as unknown as IntrospectionQuery;
    const described = (one: IntrospectionQuery): unknown =>
      one.__schema.types.find((type) => type.name === "ChannelStatus");
    expect(described(ours), "with the descriptions of our own").toEqual(described(reference));
  });

  it("is enough for GraphiQL", async () => {
    const { data } = await client.execute({ query: getIntrospectionQuery() });
    const built = buildClientSchema(data as unknown as IntrospectionQuery);
    expect(built.getSubscriptionType()?.getFields().subscribeChannel?.args).toHaveLength(1);
  });

  it.each([
    '{ __type(name: "ChannelValue") { kind name fields { name args { name defaultValue type { ...t } } type { ...t } } } } fragment t on __Type { kind name ofType { kind name ofType { kind name ofType { name } } } }',
    '{ a: __type(name: "Widget") { enumValues { name isDeprecated } fields { name } } b: __type(name: "None") { name } }',
    '{ __type(name: "ID") { kind ofType { name } interfaces { name } possibleTypes { name } inputFields { name } isOneOf specifiedByURL } __typename }',
    "{ __schema { queryType { name } mutationType { name } subscriptionType { name __typename } directives { name args { name defaultValue } } } }",
  ])("answers %s", async (query) => {
    const ours = await client.execute({ query });
    const theirs = graphqlSync({ schema, source: query });
    expect(plain(ours)).toEqual(plain(theirs));
  });
});
