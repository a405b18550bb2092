/** Executes queries and mutations. */

import type { Client } from "../client/client.js";
import { readPutValue } from "./put_value.js";
import type { GetResult, PutResult, PutValue } from "../types.js";
import type { Operation, Plans, Root } from "./plans.js";
import type { GraphqlError, GraphqlResult } from "./types.js";

/**
 * Fields of the query and the mutation that are never null: an error there makes the whole result
 * null.
 */
const NEVER_NULL: ReadonlySet<string> = new Set(["getChannels", "putChannels", "__schema"]);

/** The result of a field. */
interface Answer {
  readonly value: unknown;
  readonly errors: readonly GraphqlError[];
}

interface Failure {
  readonly message: string;
  readonly code?: string;
  readonly mayBeWritten?: boolean;
}

const TYPENAME = "__typename:";

export async function execute(
  client: Client,
  plans: Plans,
  { roots, type }: Operation,
): Promise<GraphqlResult> {
  const executor = new Executor(client, plans);
  const answers: Answer[] = [];
  if (type === "mutation") {
    // One after another: the second may depend on what the first wrote.
    for (const root of roots) answers.push(await executor.answer(root));
  } else {
    answers.push(...(await executor.query(roots)));
  }
  const errors = answers.flatMap((answer) => answer.errors);
  const data = roots.some((root, at) => NEVER_NULL.has(root.name) && answers[at]?.value === null)
    ? null
    : Object.fromEntries(roots.map((root, at) => [root.key, answers[at]?.value]));
  return errors.length === 0 ? { data } : { errors, data };
}

class Executor {
  #client: Client;
  #plans: Plans;

  constructor(client: Client, plans: Plans) {
    this.#client = client;
    this.#plans = plans;
  }

  /** All at once; PVs with the same selection and time-out share one request. */
  async query(roots: readonly Root[]): Promise<Answer[]> {
    const together = new Map<string, Root[]>();
    for (const root of roots) {
      if (root.name !== "getChannel" || root.problem !== undefined) continue;
      const same = `${String(root.args.timeout)} ${root.selection}`;
      const group = together.get(same);
      if (group === undefined) together.set(same, [root]);
      else group.push(root);
    }
    const found = new Map<Root, Answer>();
    await Promise.all(
      [...together.values()].map(async (group) => {
        const [first] = group as [Root];
        const ids = group.map((root) => root.args.id as string);
        const results = await this.#get(first, ids);
        group.forEach((root, at) => found.set(root, one(root, results[at] as GetResult<unknown>)));
      }),
    );
    return Promise.all(roots.map(async (root) => found.get(root) ?? this.answer(root)));
  }

  async answer(root: Root): Promise<Answer> {
    const { args, name, problem } = root;
    if (problem !== undefined) return nothing(root, { message: problem });
    switch (name) {
      case "getChannels": {
        const results = await this.#get(root, args.ids as string[]);
        return many(root, results.map(failureOf), results.map(dataOf));
      }
      case "putChannels":
        return this.#put(root);
      case "__schema":
      case "__type": {
        const { introspected } = await import("./introspection.js");
        return {
          value: await introspected(root, this.#client.options.introspectionWasm),
          errors: [],
        };
      }
      default:
        return {
          value: name.startsWith(TYPENAME) ? name.slice(TYPENAME.length) : null,
          errors: [],
        };
    }
  }

  #get(root: Root, ids: readonly string[]): Promise<GetResult<unknown>[]> {
    const selection = this.#plans.channel(root);
    return this.#client.get(ids, { selection, timeoutMs: milliseconds(root.args.timeout) });
  }

  async #put(root: Root): Promise<Answer> {
    const { ids, timeout, values, wait } = root.args as {
      ids: readonly string[];
      values: readonly string[];
      timeout: number;
      wait: boolean;
    };
    if (ids.length !== values.length) {
      const message = `${String(values.length)} values can't be put to ${String(ids.length)} PVs`;
      return nothing(root, { message, code: "BAD_VALUE" });
    }
    const timeoutMs = milliseconds(timeout);
    const read = await Promise.all(
      ids.map((id, at) => this.#valueOf(id, values[at] as string, timeoutMs)),
    );
    const puts = ids.flatMap((id, at) => {
      const { value } = read[at] as ValueOf;
      return value === undefined ? [] : [[id, value] as const];
    });
    const outcomes = (await this.#client.putMany(puts, { timeoutMs, wait })).values();
    const failures = read.map(({ failure }): Failure | undefined => {
      if (failure !== undefined) return failure;
      const outcome = outcomes.next().value as PutResult;
      return outcome.ok ? undefined : outcome.error;
    });
    const written = ids.filter((_, at) => failures[at] === undefined);
    const results = (await this.#get(root, written)).values();
    const shown: unknown[] = [];
    const problems = failures.map((failure) => {
      const result = failure === undefined ? results.next().value : undefined;
      shown.push(result === undefined ? null : dataOf(result));
      return failure ?? (result === undefined ? undefined : failureOf(result));
    });
    return many(root, problems, shown);
  }

  /** The value of a text, or why it has none. */
  async #valueOf(id: string, text: string, timeoutMs: number): Promise<ValueOf> {
    const read = readPutValue(text);
    const isText = "literal" in read && read.literal;
    if (isText || (await this.#isText(id, timeoutMs))) return { value: text };
    if ("value" in read) return { value: read.value };
    return { failure: { message: read.problem, code: "BAD_VALUE", mayBeWritten: false } };
  }

  /** Whether a PV holds one string, so that every value put to it is text. */
  async #isText(id: string, timeoutMs: number): Promise<boolean> {
    const selection = "{ display { type elementCount } }";
    const [result] = await this.#client.get<{
      display: { type: string; elementCount: number } | null;
    }>([id], { selection, timeoutMs });
    if (result?.ok !== true) return false;
    const { elementCount, type } = result.data.display ?? {};
    return type === "String" && elementCount === 1;
  }
}

/** Limited to the range that a client accepts. */
const milliseconds = (seconds: unknown): number =>
  Math.min(Math.max(Number(seconds) * 1000, 1), 2 ** 31 - 10_000);

interface ValueOf {
  readonly value?: PutValue;
  readonly failure?: Failure;
}

const dataOf = (result: GetResult<unknown>): unknown => (result.ok ? result.data : null);

const failureOf = (result: GetResult<unknown>): Failure | undefined =>
  result.ok ? undefined : result.error;

/** The answer of a field that can't be answered. */
export function nothing(root: Root, failure: Failure): Answer {
  return { value: null, errors: [errorOf(root, failure, [root.key])] };
}

function one(root: Root, result: GetResult<unknown>): Answer {
  return result.ok ? { value: result.data, errors: [] } : nothing(root, result.error);
}

function many(
  root: Root,
  failures: readonly (Failure | undefined)[],
  value: readonly unknown[],
): Answer {
  const errors = failures.flatMap((failure, at) =>
    failure === undefined ? [] : [errorOf(root, failure, [root.key, at])],
  );
  return { value, errors };
}

function errorOf(root: Root, failure: Failure, path: readonly (string | number)[]): GraphqlError {
  const { code, mayBeWritten, message } = failure;
  const extensions = {
    ...(code === undefined ? {} : { code }),
    ...(mayBeWritten === undefined ? {} : { mayBeWritten }),
  };
  return {
    message,
    ...(root.locations === undefined ? {} : { locations: root.locations }),
    path,
    ...(Object.keys(extensions).length === 0 ? {} : { extensions }),
  };
}
