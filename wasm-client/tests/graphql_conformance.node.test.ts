/**
 * The engine accepts and refuses documents as GraphQL's reference implementation does: through
 * WebAssembly here, natively in `client-core/tests/documents.rs`, both by the same vectors.
 * `PVWIRE_WRITE_VECTORS=1` writes the errors that the engine gives into their file. Results are the same on the same data:
 * those of `client-core/tests/vectors/requests.json`, which the package (`vectors.test.ts`) and the native engine give
 * as well.
 */

import { readFileSync, writeFileSync } from "node:fs";

import {
  buildClientSchema,
  buildSchema,
  type DocumentNode,
  execute,
  type ExecutionResult,
  getIntrospectionQuery,
  graphql,
  GraphQLError,
  graphqlSync,
  type IntrospectionQuery,
  parse,
  validate,
} from "graphql";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { initSync, Operation } from "../pkg/pvwire_graphql.js";
import { createGraphqlClient, type GraphqlResult, schemaSdl } from "../ts/graphql/index.js";
import type { PvData } from "../ts/index.js";
import { fakeClient } from "./fake_relay.js";
import { graphqlWasm, textOf } from "./golden.js";
import { type Case as Request, type Event, run, snapshots, type Vectors } from "./vectors.js";

interface DocumentError {
  message: string;
  locations?: { line: number; column: number }[];
}

/** See `client-core/tests/vectors/README.md`. */
interface Case {
  readonly name: string;
  readonly document: string;
  readonly variables?: Record<string, unknown>;
  errors: DocumentError[];
  readonly argument?: unknown;
}

const file = new URL("../../client-core/tests/vectors/documents.json", import.meta.url);
const vectors = JSON.parse(readFileSync(file, "utf8")) as { about: string; cases: Case[] };
const withVariables = vectors.cases.filter(({ variables }) => variables !== undefined);
const withoutVariables = vectors.cases.filter(({ variables }) => variables === undefined);

/** The reference implementation has the first error of these; what follows from it, it tells in other ways. */
const FIRST_ONLY = "only the first error is the reference's";

const requests = JSON.parse(
  await textOf(new URL("../../client-core/tests/vectors/requests.json", import.meta.url)),
) as Vectors;

const schema = buildSchema(schemaSdl);

beforeAll(() => {
  initSync(graphqlWasm as WebAssembly.Module);
});

const isWriting = process.env.PVWIRE_WRITE_VECTORS === "1";

afterAll(() => {
  if (!isWriting) return;
  const lines = vectors.cases.map((of) => {
    const members = Object.entries(of).map(([key, value]) => `"${key}": ${JSON.stringify(value)}`);
    return `{${members.join(", ")}}`;
  });
  const about = JSON.stringify(vectors.about);
  writeFileSync(file, `{"about": ${about}, "cases": [\n${lines.join(",\n")}]}\n`);
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

/** The plan of an operation, or its errors. */
function plan(text: string, variables: string): string {
  const operation = new Operation(text, undefined, variables);
  const planned = operation.plan();
  operation.free();
  return planned;
}

function ours(text: string): DocumentError[] {
  const answer = plan(text, "");
  if (!answer.startsWith("[")) return [];
  const errors = JSON.parse(answer) as DocumentError[];
  // Which operation is meant is no question of the document.
  return /^(Must provide|Unknown operation)/.test(errors[0]?.message ?? "") ? [] : errors;
}

describe("a document", () => {
  it.each(withoutVariables)("gives its errors: $name: $document", (of) => {
    const given = ours(of.document);
    if (isWriting) of.errors = given;
    expect(given).toEqual(of.errors);
    const reference = theirs(of.document);
    if (of.name === FIRST_ONLY) expect(given[0]).toEqual(reference[0]);
    else expect(given).toEqual(reference);
    if (of.name === "not of the grammar") expect(given).toHaveLength(1);
    if (of.name === "read") expect(given).toEqual([]);
    else expect(given).not.toEqual([]);
  });

  it.each([
    getIntrospectionQuery(),
    getIntrospectionQuery({
      specifiedByUrl: true,
      directiveIsRepeatable: true,
      schemaDescription: true,
      inputValueDeprecation: true,
      oneOf: true,
    }),
  ])("of the reference is among the vectors: %s", (text) => {
    expect(withoutVariables.map(({ document }) => document)).toContain(text);
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
    const texts = withoutVariables
      .filter(({ name }) => name !== "not of the grammar" && name !== FIRST_ONLY)
      .map(({ document }) => document)
      .filter((text) => text.length < 400);
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

describe("variables", () => {
  it.each(withVariables)("$name: $document, $variables", async (of) => {
    const { argument, document: text, variables } = of;
    expect(theirs(text)).toEqual([]);
    const planned = plan(text, JSON.stringify(variables));
    const isRefused = planned.startsWith("?");
    const given = isRefused ? (JSON.parse(planned.slice(1)) as DocumentError[]) : [];
    if (isWriting) of.errors = given;
    expect(given).toEqual(of.errors);
    expect(isRefused).toBe(argument === undefined);
    if (isRefused) {
      const document = parse(text);
      const reference = await execute({ schema, document, variableValues: variables });
      expect(given).toEqual(reference.errors?.map(plain));
    } else {
      const args = /\d+:\d+ (\{.*\})$/m.exec(planned)?.[1] ?? "none";
      expect(Object.values(JSON.parse(args) as object)).toContainEqual(argument);
    }
  });
});

describe("execution", () => {
  let pvs: ReadonlyMap<string, PvData>;

  beforeAll(async () => {
    pvs = await snapshots(requests.event as Event);
  });

  /** What the schema's fields resolve to, by the PV's data as the rest of the package shows it. */
  function channel(name: string): unknown {
    const pv = pvs.get(name) as PvData;
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
        form: display.form?.toUpperCase() ?? null,
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
    // The relay of the vectors changes nothing when it is asked to put.
    putChannels: many,
    subscribeChannel: ({ id }: { id: string }): unknown => channel(id),
  };

  /** Without what JSON doesn't show, but with the order of the keys. */
  const plain = (value: unknown): string => JSON.stringify(value, undefined, 1);

  async function theirs({
    document = "",
    operation,
    variables,
  }: Request): Promise<ExecutionResult> {
    if (document.startsWith("subscription")) {
      // The first result of a subscription is the result of its field.
      return execute({ schema, document: parse(document), rootValue, variableValues: variables });
    }
    return graphql({
      schema,
      source: document,
      rootValue,
      operationName: operation,
      variableValues: variables,
    });
  }

  /** A result as responses have it: the errors of an invalid document are its only member. */
  function response(received: unknown): unknown {
    const { $errors: errors, ...result } = received as { $errors?: unknown };
    return errors === undefined ? result : { errors };
  }

  describe("a request", () => {
    it.each(requests.cases)("is answered as the reference does: $name: $document", async (of) => {
      const reference = plain(await theirs(of));
      const [expected] = of.steps.map((step) => step.expected as unknown[]);
      expect(expected?.map((received) => plain(response(received)))).toEqual([reference]);
      // The vectors are compared without the order of the keys.
      const { results } = await run(requests, of);
      const [received] = results as unknown[][];
      expect(received?.map((one) => plain(response(one)))).toEqual([reference]);
    });
  });

  describe("introspection", () => {
    async function ask(query: string): Promise<GraphqlResult> {
      vi.useFakeTimers();
      const pvs = fakeClient();
      const client = createGraphqlClient(pvs);
      await pvs.ready;
      const result = await client.execute({ query });
      client.dispose();
      pvs.dispose();
      vi.useRealTimers();
      return result;
    }

    const withoutDescriptions = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value), (key, member: unknown) => {
        if (key === "description") return undefined;
        const named = (entry: unknown): entry is { name: string } =>
          typeof entry === "object" && entry !== null && "name" in entry;
        if (
          (key === "types" || key === "directives") &&
          Array.isArray(member) &&
          member.every(named)
        ) {
          return [...member].sort((a, b) => a.name.localeCompare(b.name));
        }
        return member;
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
      const { data, errors } = await ask(query);
      expect(errors).toBeUndefined();
      const reference = graphqlSync({ schema, source: query })
        .data as unknown as IntrospectionQuery;
      expect(withoutDescriptions(data)).toEqual(withoutDescriptions(reference));
      const ours = data as unknown as IntrospectionQuery;
      const described = (one: IntrospectionQuery): unknown =>
        one.__schema.types.find((type) => type.name === "ChannelStatus");
      expect(described(ours), "with the descriptions of our own").toEqual(described(reference));
    });

    it("is enough for GraphiQL", async () => {
      const { data } = await ask(getIntrospectionQuery());
      const built = buildClientSchema(data as unknown as IntrospectionQuery);
      expect(built.getSubscriptionType()?.getFields().subscribeChannel?.args).toHaveLength(1);
    });
  });
});
