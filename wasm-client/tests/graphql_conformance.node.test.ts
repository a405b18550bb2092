/** The engine accepts and refuses documents as GraphQL's reference implementation does. */

import {
  buildSchema,
  execute,
  getIntrospectionQuery,
  GraphQLError,
  parse,
  validate,
  type DocumentNode,
} from "graphql";
import { beforeAll, describe, expect, it } from "vitest";

import { initSync, Operation } from "../pkg/pvwire_graphql.js";
import { schemaSdl } from "../ts/graphql/index.js";
import { graphqlWasm } from "./golden.js";

/** The plan of an operation, or its errors. */
function plan(text: string, name: string | undefined, variables: string): string {
  const operation = new Operation(text, name, variables);
  const planned = operation.plan();
  operation.free();
  return planned;
}

const schema = buildSchema(schemaSdl);

interface DocumentError {
  message: string;
  locations?: { line: number; column: number }[];
}

beforeAll(() => {
  initSync(graphqlWasm as WebAssembly.Module);
});

const plain = ({ message, locations }: GraphQLError): DocumentError =>
  locations === undefined
    ? { message }
    : { message, locations: locations.map((at) => ({ ...at })) };

function theirs(text: string): DocumentError[] {
  let document: DocumentNode;
  try {
    document = parse(text);
  } catch (error) {
    return [plain(error as GraphQLError)];
  }
  return validate(schema, document).map(plain);
}

function ours(text: string): DocumentError[] {
  const answer = plan(text, undefined, "");
  if (!answer.startsWith("[")) return [];
  const errors = JSON.parse(answer) as DocumentError[];
  // Which operation is meant is no question of the document.
  return /^(Must provide|Unknown operation)/.test(errors[0]?.message ?? "") ? [] : errors;
}

const channel = (inner: string): string => `{ getChannel(id: "X") { ${inner} } }`;
const value = (inner: string): string => channel(`value { ${inner} }`);
const onId = (literal: string): string => `{ getChannel(id: ${literal}) { id } }`;
const onIds = (literal: string): string => `{ getChannels(ids: ${literal}) { id } }`;

const READ: readonly string[] = [
  channel("id"),
  'query { getChannel(id: "X") { id } }',
  'query Q { a: getChannel(id: 5) { id } b: getChannel(id: "Y", timeout: 1) { id } }',
  "query Q($id: ID!, $t: Float = 2) { getChannel(id: $id, timeout: $t) { id } }",
  'query Q($id: ID = "X") { getChannel(id: $id) { id } }',
  'query Q($u: Boolean) { getChannel(id: "X") { value { string(units: $u) } } }',
  "query Q($ids: [ID!]!) { getChannels(ids: $ids) { id } }",
  'query Q($id: ID!) { getChannels(ids: [$id, "Y"]) { id } }',
  onIds('"X"'),
  onIds('["X", 5]'),
  onIds("[]"),
  '{ getChannel(id: """\n  block \\"""\n""") { id } }',
  '\ufeff# comment\r\n{ getChannel(id: "\\u00fc\\uD83D\\uDE00\\u{1F600}\\n") { id } } # end',
  'mutation M { putChannels(ids: ["X"], values: ["1"]) { id value { float } } }',
  'mutation { putChannels(ids: "X", values: "1", wait: true) { id } }',
  'subscription { subscribeChannel(id: "X") { id } }',
  'subscription { a: __typename @skip(if: true) subscribeChannel(id: "X") { id } }',
  'subscription S { subscribeChannels(ids: ["X"]) { id skipped } }',
  "subscription S($id: ID!) { ...f } fragment f on Subscription { subscribeChannel(id: $id) { id } }",
  channel("...f") +
    " fragment f on Channel { id value { ...g } } fragment g on ChannelValue { float }",
  channel("... on Channel { id } ... { skipped } ... @include(if: true) { id }"),
  channel("id @skip(if: false) @include(if: true)"),
  'query($x: Boolean!) { getChannel(id: "X") { id @skip(if: $x) ...f @include(if: $x) } } fragment f on Channel { skipped }',
  'query($x: Boolean = true) { getChannel(id: "X") { id @skip(if: $x) } }',
  channel("id id: id value { float } value { string }"),
  channel("value { s: string s: string(units: false) }").replace("(units: false)", ""),
  value("a: stringArray(length: 3) a: stringArray(length: 3) base64Array { base64 }"),
  channel("__typename time { __typename }"),
  '{ __typename __schema { queryType { name } } __type(name: "Channel") { fields { name } } }',
  getIntrospectionQuery(),
  getIntrospectionQuery({
    specifiedByUrl: true,
    directiveIsRepeatable: true,
    schemaDescription: true,
    inputValueDeprecation: true,
    oneOf: true,
  }),
  "query A { __typename } query B { __typename }",
  '"described" query A("also" $id: ID!) { getChannel(id: $id) { id } }',
  '{ query: getChannel(id: "X") { fragment: id on: id true: id null: id } }',
  '{,,getChannel(id:"X",timeout:1.5e0,){id,,}}',
];

const NOT_READ: readonly string[] = [
  "",
  "   # nothing\n",
  "{",
  "}",
  "{}",
  "{ getChannel( }",
  "{ getChannel() { id } }",
  "{ getChannel(id: ) { id } }",
  '{ getChannel(id "X") { id } }',
  "query Q( { id }",
  "query Q() { id }",
  "query Q($) { id }",
  "query Q($a) { id }",
  "query Q($a: ) { id }",
  "query Q($a: [ID) { id }",
  "query Q($a: ID!!) { id }",
  "query Q($a: ID = $b) { id }",
  "query Q($a: ID = $) { id }",
  "query Q($a: [ID] = [1, $b]) { id }",
  "query Q($a: ID @x(y: $b)) { id }",
  "query Q { id } extra",
  "queri { id }",
  "{ id } }",
  "{ a: }",
  "{ : a }",
  "{ a b: c: d }",
  "{ ... }",
  "{ ...on }",
  "{ ... on }",
  "{ ...on Channel }",
  "{ ... on Channel id }",
  "fragment on on Channel { id }",
  "fragment f Channel { id }",
  "fragment f on { id }",
  "fragment f on Channel",
  "fragment { id }",
  "subscription",
  "mutation M",
  "{ id @ }",
  "{ id @skip( }",
  "{ a(b: [1, 2) { id } }",
  "{ a(b: {c 1}) { id } }",
  "{ a(b: {c: 1) { id } }",
  "{ a(b: &) { id } }",
  onId('"open'),
  onId('"line\nbreak"'),
  onId('"bad \\x escape"'),
  onId('"bad \\u12 escape"'),
  onId('"bad \\uD800 half"'),
  onId('"bad \\uD83D\\u0041 pair"'),
  onId('"bad \\u{110000} code"'),
  onId('"bad \\u{} code"'),
  onId('"bad \\u{12'),
  onId('"""open'),
  onId("00"),
  onId("01"),
  onId("-"),
  onId("-a"),
  onId("1."),
  onId("1.a"),
  onId("1e"),
  onId("1e+"),
  onId("1.5.6"),
  onId("1x"),
  onId("0x1"),
  onId("1_000"),
  onId("."),
  onId(".."),
  onId("'X'"),
  onId("ü"),
  onId("\u0007"),
  "{ ü }",
  "{ a ? }",
  "{ a % b }",
  "{ a; b }",
  "{\r\n  a\r  ü\n}",
  '{ "text" }',
  '{ a(b: """x""" "y") }',
  '"text" { id }',
  '"text" x { id }',
  '"text" 5',
  '"""text""" extend type X { a: Int }',
  '{ a(x: 1) } """\n text\n"""',
  "😀",
  "{ a😀 }",
];

const NOT_VALID: readonly string[] = [
  // What is asked of which type.
  "{ nothing }",
  '{ getchannel(id: "X") { id } }',
  channel("vale { float }"),
  channel("valu { float } tiem { seconds } x"),
  value("flot strng base64array stringarray(length: 1)"),
  value("base64Array { number base }"),
  channel("display { controlrange { minimum } }"),
  channel("id { x }"),
  channel("value"),
  channel("value time status { quality { x } }"),
  '{ getChannel(id: "X") }',
  '{ getChannels(ids: ["X"]) }',
  '{ __type(name: "X") }',
  channel("__schema { types { name } }"),
  channel("__nothing"),
  'mutation { getChannel(id: "X") { id } }',
  "subscription { putChannels(ids: [], values: []) { id } }",
  // Arguments.
  "{ getChannel { id } }",
  '{ getChannel(ID: "X") { id } }',
  '{ getChannel(id: "X", timout: 3) { id } }',
  '{ getChannel(id: "X", id: "Y") { id } }',
  '{ getChannel(id: "X", id: "Y", id: "Z", x: 1, x: 2) { id } }',
  "mutation { putChannels { id } }",
  'mutation { putChannels(ids: ["X"]) { id } }',
  value("string(unit: true)"),
  value("float(x: 1)"),
  channel("id @skip"),
  channel("id @include(of: true)"),
  channel("id @skip(if: true, if: false)"),
  // Values.
  onId("1.5"),
  onId("true"),
  onId("null"),
  onId("[]"),
  onId('["X"]'),
  onId("{a: 1}"),
  onId("X"),
  onIds("null"),
  onIds("[null]"),
  onIds("[1.5, true]"),
  onIds('[["X"]]'),
  onIds('{a: "X", b: [1, $c]}'),
  onIds("{a: 1, a: 2, a: 3}"),
  '{ getChannel(id: "X", timeout: "5") { id } }',
  '{ getChannel(id: "X", timeout: null) { id } }',
  value("string(units: 1)"),
  value('string(units: "true")'),
  value("string(units: TRUE)"),
  value("string(units: null)"),
  value("stringArray(length: 1.0)"),
  value('stringArray(length: "1")'),
  value("stringArray(length: 2147483648)"),
  value("stringArray(length: -2147483649)"),
  value("stringArray(length: 99999999999999999999999)"),
  'mutation { putChannels(ids: ["X"], values: [1, true, null, """x"""]) { id } }',
  onId('{a: "x\\ny", b: """z""", c: [X, $y, null, 1.5]}'),
  channel('id @skip(if: "no")'),
  // Variables.
  "query($a: ID!) { __typename }",
  "query Q($a: ID!, $b: Float) { __typename }",
  "{ getChannel(id: $a) { id } }",
  "query Q { getChannel(id: $a, timeout: $b) { id } }",
  "query($a: ID) { getChannel(id: $a) { id } }",
  "query($a: String!) { getChannel(id: $a) { id } }",
  "query($a: [ID!]!) { getChannel(id: $a) { id } }",
  "query($a: ID!) { getChannels(ids: $a) { id } }",
  "query($a: [ID]!) { getChannels(ids: $a) { id } }",
  "query($a: [ID!]) { getChannels(ids: $a) { id } }",
  "query($a: ID) { getChannels(ids: [$a]) { id } }",
  "query($a: ID = null) { getChannel(id: $a) { id } }",
  "query($a: Boolean) { __typename @skip(if: $a) }",
  "query($a: Boolean = null) { __typename @skip(if: $a) }",
  'query($a: Int!) { getChannel(id: "X", timeout: $a) { id } }',
  "query($a: Channel) { getChannel(id: $a) { id } }",
  "query($a: [Channel!]!) { getChannel(id: $a) { id } }",
  "query($a: Nothing) { getChannel(id: $a) { id } }",
  'query($a: [Strin!]) { getChannel(id: "X") { id } }',
  "query($a: ID!, $a: ID!) { getChannel(id: $a) { id } }",
  "query($a: ID! = 1.5) { getChannel(id: $a) { id } }",
  "query($a: ID! = null) { getChannel(id: $a) { id } }",
  "query($a: [ID!] = [1, null, 2.5]) { getChannel(id: $a) { id } }",
  "query($a: Widget = LAD) { __typename }",
  'query($a: Widget = "LED", $b: Widget = 5, $c: DateTime = {x: 1}) { __typename }',
  "query($a: [Widget!]! = [LED, BARR]) { __typename }",
  "query A($a: ID!) { ...f } query B { ...f } fragment f on Query { getChannel(id: $a) { id } }",
  "query A { ...f } fragment f on Query { getChannel(id: $a) { ...g } } fragment g on Channel { value { string(units: $b) } }",
  "query A($a: Int) { ...f } fragment f on Query { getChannel(id: $a) { id } }",
  "query($a: Boolean! @x(y: 1)) { __typename @skip(if: $a) }",
  // Operations and fragments.
  "{ __typename } { __typename }",
  "{ __typename } query A { __typename }",
  "query A { __typename } query A { __typename } mutation A { __typename }",
  "fragment f on Channel { id }",
  "fragment f on Channel { id } fragment g on Channel { ...f }",
  channel("...f"),
  channel("...f ...g") + " fragment f on Channel { id }",
  channel("...f") + " fragment f on Channel { id } fragment f on Channel { skipped }",
  channel("...f") + " fragment f on Chanel { id }",
  channel("...f") + " fragment f on Query { __typename }",
  channel("...f") + " fragment f on String { x }",
  channel("...f") + " fragment f on Widget { x }",
  channel("... on Query { __typename }"),
  channel("... on Float { x }"),
  channel("... on Nothing { x y { z } }"),
  channel("value { ... on Channel { id } ... on ChannelTime { flot } }"),
  channel("...f") + " fragment f on Channel { ...f }",
  channel("...f") +
    " fragment f on Channel { ...g } fragment g on Channel { ...h } fragment h on Channel { ...f }",
  channel("...f") +
    " fragment f on Channel { id ...g ...f } fragment g on Channel { ...f ... on Channel { ...g } }",
  channel("value { ...f }") +
    " fragment f on ChannelValue { flot ...g } fragment g on ChannelValue { x }",
  // Directives.
  channel("id @nothing"),
  channel("id @nothing(x: 1) @other"),
  channel("id @skip(if: true) @skip(if: true)"),
  channel("id @skip(if: true) @include(if: true) @skip(if: true) @skip(if: false)"),
  channel("id @deprecated"),
  channel('id @specifiedBy(url: "x") @oneOf'),
  "query @skip(if: true) { __typename }",
  "mutation @include(if: true) { __typename }",
  "query Q @nothing { __typename }",
  channel("...f @skip") + " fragment f on Channel @include(if: true) { id }",
  channel("... @nothing { id }"),
  // Subscriptions.
  'subscription { a: subscribeChannel(id: "X") { id } b: subscribeChannel(id: "Y") { id } }',
  'subscription S { subscribeChannel(id: "X") { id } ...f } fragment f on Subscription { c: subscribeChannel(id: "X") { id } ... { d: __typename } }',
  "subscription S { __typename }",
  'subscription { subscribeChannel(id: "X") { id } __typename x: __typename __typename }',
  // Fields of one key.
  channel("a: id a: skipped"),
  channel("a: id a: __typename"),
  channel("value { x: float x: number x: text }"),
  value("s: string s: string(units: true)"),
  value("s: stringArray(length: 1) s: stringArray(length: 2) s: stringArray"),
  value("s: stringArray(length: $a) s: stringArray(length: $b)"),
  channel("v: value { float } v: time { seconds }"),
  channel("value { a: float } value { a: string b: text } value { b: exact }"),
  channel("value { a: float } ...f") + " fragment f on Channel { value { a: string } }",
  channel("...f ...g") + " fragment f on Channel { a: id } fragment g on Channel { a: skipped }",
  channel("...f ...g") +
    " fragment f on Channel { a: id ...h } fragment g on Channel { b: id } fragment h on Channel { b: skipped a: __typename }",
  channel("a: id ... on Channel { a: skipped } ... { a: __typename }"),
  '{ a: getChannel(id: "X") { id } a: getChannel(id: "Y") { id } }',
  '{ a: getChannel(id: "X") { id } a: getChannels(ids: ["X"]) { id } }',
  '{ a: getChannels(ids: ["X"]) { a: id } a: getChannels(ids: ["X"]) { a: skipped } }',
  '{ a: getChannel(id: "X") { value { b: float } } a: getChannel(id: "X") { value { b: text } } }',
  channel("display { r: controlRange { x: min } r: controlRange { x: max } }"),
  // What would show much of the schema.
  "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }",
  '{ __type(name: "X") { ...f } } fragment f on __Type { fields { type { ...f } } }',
  '{ __type(name: "X") { ...f } a: __type(name: "Y") { fields { type { ...f } } } } fragment f on __Type { ...g } fragment g on __Type { possibleTypes { fields { name } interfaces { ... { inputFields { name } } } } }',
  '{ __schema { x { ...f ...f } } __type(name: "X") { ...f } } fragment f on __Type { fields { type { ofType { possibleTypes { ...g } } } } ...f ...nope } fragment g on __Type { fields { name } }',
  channel("__schema { fields { fields { fields { name } } } }"),
  // What is no document to execute.
  "type X { a: Int }",
  "schema { query: Query }",
  "extend type Channel { a: Int }",
  "directive @x on FIELD",
  // Much at once.
  `query Q($a: Int, $unused: [Nothing]) { getChannel(id: $a, x: [1, {y: $z}]) { vale @nope value { flot } ...g } }
   query Q { nothing } fragment f on Channel { id } fragment f on Nope { x }`,
];

/** Told with the same first error; what follows from it is told in other ways. */
const FIRST_ALIKE: readonly string[] = [
  // The reference implementation takes the last of two variables for the real one.
  "query($a: ID!, $b: Float, $a: String, $b: Int, $b: Int) { getChannel(id: $a) { id } }",
  // It goes on to check definitions of types.
  "scalar X @y",
  "{ nothing } type X @y { a: Nothing }",
];

describe("a document", () => {
  it.each(READ)("is read: %s", (text) => {
    expect(theirs(text)).toEqual([]);
    expect(ours(text)).toEqual([]);
  });

  it.each(NOT_READ)("doesn't follow the grammar: %s", (text) => {
    expect(theirs(text)).toHaveLength(1);
    expect(ours(text)).toEqual(theirs(text));
  });

  it.each(NOT_VALID)("doesn't fit the schema: %s", (text) => {
    expect(theirs(text)).not.toEqual([]);
    expect(ours(text)).toEqual(theirs(text));
  });

  it.each(FIRST_ALIKE)("has the same first error: %s", (text) => {
    expect(ours(text)[0]).toEqual(theirs(text)[0]);
  });
});

describe("a document that was damaged", () => {
  it("is refused with the same first error, or accepted as well", () => {
    let state = 20_260_131;
    const below = (limit: number): number => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((state / 2 ** 31) * limit);
    };
    const words = (text: string): string[] =>
      text.match(/"(?:[^"\\]|\\.)*"|\w+|\.\.\.|\s+|[^\s\w]/gu) ?? [];
    const texts = [...READ, ...NOT_VALID].filter((text) => text.length < 400);
    const pieces = texts.flatMap(words);
    let refused = 0;
    for (let nth = 0; nth < 5000; nth += 1) {
      const damaged = words(texts[below(texts.length)] ?? "");
      for (let cuts = below(3); cuts >= 0; cuts -= 1) {
        const piece = [` ${pieces[below(pieces.length)] ?? ""} `].slice(below(2));
        damaged.splice(below(damaged.length), below(2), ...piece);
      }
      const text = damaged.join("");
      // Definitions of types are not looked into.
      if (/\b(scalar|type|extend|directive|schema|enum|input|union|interface)\b/.test(text))
        continue;
      const expected = theirs(text)[0];
      expect({ text, first: ours(text)[0] }).toEqual({ text, first: expected });
      if (expected !== undefined) refused += 1;
    }
    expect(refused).toBeGreaterThan(2000);
  }, 60_000);
});

const takes = (type: string): string => {
  const scalar = type.replace(/[[\]!]/g, "");
  const list = type.includes("[");
  const field = {
    ID: list ? "getChannels(ids: $x) { id }" : "getChannel(id: $x) { id }",
    Float: "getChannel(id: 1, timeout: $x) { id }",
    Boolean: "getChannel(id: 1) { value { string(units: $x) } }",
    Int: "getChannel(id: 1) { value { stringArray(length: $x) } }",
  }[scalar];
  if (field !== undefined) return `query($x: ${type}) { ${field} }`;
  return `mutation($x: ${type}) { putChannels(ids: 1, values: $x) { id } }`;
};

describe("variables", () => {
  const wrong: readonly [string, unknown][] = [
    ["ID!", {}],
    ["ID!", { x: null }],
    ["ID!", { x: 1.5 }],
    ["ID!", { x: true }],
    ["ID!", { x: [1] }],
    ["ID!", { x: { a: 1, b: ["c", null] } }],
    ["[ID!]!", {}],
    ["[ID!]!", { x: [1, null, "a", 2.5, { b: [] }] }],
    ["[ID!]!", { x: [[1]] }],
    ["Float!", { x: "1" }],
    ["Float!", { x: false }],
    ["Int!", { x: 1.5 }],
    ["Int!", { x: 2 ** 31 }],
    ["Int!", { x: 1e30 }],
    ["Int!", { x: 1e-7 }],
    ["Int!", { x: "1" }],
    ["Boolean!", { x: 0 }],
    ["Boolean!", { x: "true" }],
    ["[String!]!", { x: 5 }],
    ["[String!]!", { x: ['a\n"b"', 5] }],
  ];
  it.each(wrong)("of type %s don't take %j", async (type, variableValues) => {
    const text = takes(type);
    expect(theirs(text)).toEqual([]);
    const result = await execute({
      schema,
      document: parse(text),
      variableValues: variableValues as Record<string, unknown>,
    });
    const answer = plan(text, undefined, JSON.stringify(variableValues));
    expect(answer.slice(0, 1)).toBe("?");
    expect(JSON.parse(answer.slice(1))).toEqual(result.errors?.map(plain));
  });

  const right: readonly [string, unknown, unknown][] = [
    ["ID!", 5, "5"],
    ["ID!", '\u00fc"\\\n😀', '\u00fc"\\\n😀'],
    ["ID!", 1e21, "1e+21"],
    ["Float!", 1e-7, 1e-7],
    ["Float!", -5, -5],
    ["[ID!]!", "a", ["a"]],
    ["[ID!]!", [1, "b"], ["1", "b"]],
    ["[String!]!", [], []],
    ["[String!]!", ["[x] y", '{"a": 1}'], ["[x] y", '{"a": 1}']],
  ];
  it.each(right)("of type %s take %j", (type, x, expected) => {
    const planned = plan(takes(type), undefined, JSON.stringify({ x }));
    const args = /\d+:\d+ (\{.*\})$/m.exec(planned)?.[1] ?? "none";
    expect(Object.values(JSON.parse(args) as object)).toContainEqual(expected);
  });
});
