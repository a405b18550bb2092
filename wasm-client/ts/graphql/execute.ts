/** Does what the module asks for to carry out queries and mutations. */

import type { Client } from "../client/client.js";
import { numericArray, TYPES } from "../store/elements.js";
import type { AskError, PutError } from "../errors.js";
import type { PutValue } from "../types.js";
import { introspected } from "./module.js";
import type { Operation, Plans, Step } from "./plans.js";
import type { GraphqlError, GraphqlResult } from "./types.js";

/** The result of a name: get's, or put's. */
type Result =
  | { readonly ok: true; readonly data?: unknown }
  | { readonly ok: false; readonly error: Pick<PutError, "code" | "message"> };

/** A response with numbers of results in place of the results. */
interface Response {
  /** Missing in the response to a subscription with errors. */
  readonly data?: Readonly<Record<string, unknown>> | null;
  readonly errors?: readonly GraphqlError[];
}

/** Also ends the operation. */
export async function execute(
  client: Client,
  plans: Plans,
  operation: Operation,
): Promise<GraphqlResult> {
  try {
    const found: unknown[] = [];
    for (let steps = plans.steps(operation); steps.length > 0; steps = plans.steps(operation)) {
      await Promise.all(
        steps.map(async (step) => {
          const results = await resultsOf(client, plans, operation, step);
          results.forEach((result, at) => {
            const number = step.first + at;
            if (!result.ok) fail(operation, number, result.error);
            else if (step.work === "ask") operation.told(number, JSON.stringify(result.data));
            else found[number] = result.data;
          });
        }),
      );
    }
    return withResults(operation, found);
  } finally {
    operation.free();
  }
}

/** The response, with the results in their places. */
export function withResults(operation: Operation, found: readonly unknown[]): GraphqlResult {
  const { data, ...rest } = JSON.parse(operation.respond()) as Response;
  if (data === undefined) return rest;
  const shown = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(shown);
    return typeof value === "number" ? found[value] : value;
  };
  // Made from entries, because a key may be `__proto__`.
  const entries = data && Object.entries(data).map(([key, value]) => [key, shown(value)]);
  return { ...rest, data: entries && (Object.fromEntries(entries) as Record<string, unknown>) };
}

async function resultsOf(
  client: Client,
  plans: Plans,
  operation: Operation,
  step: Step,
): Promise<readonly Result[]> {
  const { names, selection, timeoutMs, typeName, values, wait, work } = step;
  switch (work) {
    case "get":
      return client.get(names, { selection: plans.channel(step), timeoutMs });
    case "ask":
      return client.get(names, { selection, timeoutMs });
    case "put": {
      const puts = names.map(
        (name, at) => [name, valueOf(operation, values[at] as Step["values"][0])] as const,
      );
      return client.putMany(puts, { timeoutMs, wait });
    }
    case "history":
      return client.history(names[0] as string, step.range).then(
        (data) => [{ ok: true, data }],
        (error: unknown) => [{ ok: false, error: error as AskError }],
      );
    default:
      return [{ ok: true, data: await introspected(typeName, selection) }];
  }
}

function valueOf(operation: Operation, value: Step["values"][0]): PutValue {
  if (typeof value[0] !== "number") return value;
  const [type, count, number] = value as [number, number, number];
  const { buffer } = operation.array(number);
  return numericArray(buffer as ArrayBuffer, 0, count, TYPES[type] ?? "Unknown");
}

function fail(
  operation: Operation,
  number: number,
  { code, mayBeWritten, message }: Partial<PutError> & { message: string },
): void {
  operation.fail(number, message, code, mayBeWritten);
}
