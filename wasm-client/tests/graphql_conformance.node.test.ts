/**
 * The engine accepts and refuses documents as GraphQL's reference implementation does: through
 * WebAssembly here, natively in `client-core/tests/documents.rs`, both by the same vectors.
 * `PVWIRE_WRITE_VECTORS=1` writes the errors that the engine gives into their file.
 */

import { readFileSync, writeFileSync } from "node:fs";

import {
  buildSchema,
  execute,
  getIntrospectionQuery,
  GraphQLError,
  parse,
  validate,
  type DocumentNode,
} from "graphql";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { initSync, Operation } from "../pkg/pvwire_graphql.js";
import { schemaSdl } from "../ts/graphql/index.js";
import { graphqlWasm } from "./golden.js";

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
