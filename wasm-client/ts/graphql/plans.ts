/** The plan of a document, as created by the module's engine, turned into functions once. */

import { plan, program } from "../../pkg/pvwire_wasm.js";
import { planObject, programmed, type Plan } from "../pv/plan.js";
import { makeReader } from "./readers.js";
import type { GraphqlError, GraphqlPayload } from "./types.js";

/** Maximum number of plans of selections that are kept. */
const MAX_PLANS = 1000;

/** A field of the query, mutation or subscription itself. */
export interface Root {
  readonly key: string;
  readonly name: string;
  readonly locations: GraphqlError["locations"];
  readonly args: Readonly<Record<string, unknown>>;
  /** Why it can't be answered. */
  readonly problem: string | undefined;
  /** The lines of its selection. */
  readonly selection: string;
}

export interface Operation {
  readonly type: "query" | "mutation" | "subscription";
  readonly roots: readonly Root[];
}

/** The errors of a request that can't be executed, and whether the document itself is invalid. */
export interface Refusal {
  readonly errors: readonly GraphqlError[];
  readonly invalid: boolean;
}

const inJson = (_: string, value: unknown): unknown =>
  typeof value === "bigint" ? value.toString() : value;

/** Only when the module is loaded. */
export class Plans {
  #channels = new Map<string, Plan>();

  operation({ operationName, query, variables }: GraphqlPayload): Operation | Refusal {
    const json = variables ? JSON.stringify(variables, inJson) : "";
    const answer = plan(query, operationName ?? undefined, json);
    const invalid = answer.startsWith("[");
    if (invalid || answer.startsWith("?")) {
      const errors = JSON.parse(invalid ? answer : answer.slice(1)) as GraphqlError[];
      return { errors, invalid };
    }
    return readOperation(answer);
  }

  /** The plan of a field's selection for a PV. */
  channel({ selection }: Root): Plan {
    let planned = this.#channels.get(selection);
    if (planned === undefined) {
      planned = programmed(planObject(selection.split("\n"), makeReader), program(selection));
      if (this.#channels.size >= MAX_PLANS) this.#channels.clear();
      this.#channels.set(selection, planned);
    }
    return planned;
  }
}

function readOperation(text: string): Operation {
  const lines = text.split("\n");
  const roots: Root[] = [];
  for (let at = 1; at < lines.length; at += 1) {
    const [sign, key = "", name = "", places = "", ...rest] = (lines[at] as string).split(" ");
    if (sign === "") continue;
    const from = at + 1;
    if (sign === "{") {
      for (let depth = 1; depth > 0;) {
        at += 1;
        const first = lines[at]?.[0];
        if (first === "{") depth += 1;
        else if (first === "}" || first === undefined) depth -= 1;
      }
    }
    const last = JSON.parse(rest.join(" ")) as string | Record<string, unknown>;
    const isProblem = typeof last === "string";
    roots.push({
      key,
      name,
      locations: places.split(",").map((place) => {
        const [line, column] = place.split(":").map(Number) as [number, number];
        return { line, column };
      }),
      args: isProblem ? {} : last,
      problem: isProblem ? last : undefined,
      selection: lines.slice(from, at).join("\n"),
    });
  }
  return { type: lines[0] as Operation["type"], roots };
}
