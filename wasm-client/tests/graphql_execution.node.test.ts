/**
 * Documents give the same results as GraphQL's reference implementation on the same data: those of
 * `client-core/tests/vectors/requests.json`, which the package (`vectors.test.ts`) and the native
 * engine give as well.
 */

import {
  buildClientSchema,
  buildSchema,
  execute,
  getIntrospectionQuery,
  graphql,
  graphqlSync,
  parse,
  type ExecutionResult,
  type IntrospectionQuery,
} from "graphql";
import { beforeAll, describe, expect, it, vi } from "vitest";

import { createGraphqlClient, schemaSdl, type GraphqlResult } from "../ts/graphql/index.js";
import type { PvData } from "../ts/index.js";
import { fakeClient } from "./fake_relay.js";
import { textOf } from "./golden.js";
import { run, snapshots, type Case, type Event, type Vectors } from "./vectors.js";

const schema = buildSchema(schemaSdl);

const vectors = JSON.parse(
  await textOf(new URL("../../client-core/tests/vectors/requests.json", import.meta.url)),
) as Vectors;

let pvs: ReadonlyMap<string, PvData>;

beforeAll(async () => {
  pvs = await snapshots(vectors.event as Event);
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

async function theirs({ document = "", operation, variables }: Case): Promise<ExecutionResult> {
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
  it.each(vectors.cases)("is answered as the reference does: $name: $document", async (of) => {
    const reference = plain(await theirs(of));
    const [expected] = of.steps.map((step) => step.expected as unknown[]);
    expect(expected?.map((received) => plain(response(received)))).toEqual([reference]);
    // The vectors are compared without the order of the keys.
    const { results } = await run(vectors, of);
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
    const reference = graphqlSync({ schema, source: query }).data as unknown as IntrospectionQuery;
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
