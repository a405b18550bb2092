/** Operations of documents, which the module plans and carries out step by step. */

import { program } from "../../pkg/pvwire_wasm.js";
import { planObject, programmed, type Plan } from "../pv/plan.js";
import { inJson } from "../store/json.js";
import { Operation } from "./module.js";
import type { PvHistoryOptions } from "../types.js";
import type { GraphqlError, GraphqlPayload } from "./types.js";

export type { Operation };

/** Maximum number of plans of selections that are kept. */
const MAX_PLANS = 1000;

/** Something to do for an operation; `graphql.rs` writes it. */
export interface Step {
  readonly work: "get" | "ask" | "put" | "introspect" | "history" | "subscribe";
  /** The number of its first result. The others follow, one for each name. */
  readonly first: number;
  readonly names: readonly string[];
  /** The lines of the selection of each. */
  readonly selection: string;
  readonly timeoutMs: number;
  readonly wait: boolean;
  /** What is put: texts, lists of texts, or type, count and number of an array. */
  readonly values: readonly (string | readonly string[] | readonly [number, number, number])[];
  /** The type that is described; the whole schema without it. */
  readonly typeName?: string;
  /** Of a past: the field's arguments, of which those that are null count as absent. */
  readonly range: PvHistoryOptions;
  /** Of a subscription: its key in the result, whose value is a list or one PV. */
  readonly key: string;
  readonly isList: boolean;
}

/** The errors of a request that can't be executed, and whether the document itself is invalid. */
export interface Refusal {
  readonly errors: readonly GraphqlError[];
  readonly invalid: boolean;
}

/** Only when both modules are loaded. */
export class Plans {
  #channels = new Map<string, Plan>();

  operation({ operationName, query, variables }: GraphqlPayload): Operation | Refusal {
    const json = variables ? JSON.stringify(variables, inJson) : "";
    const operation = new Operation(query, operationName ?? undefined, json);
    const text = operation.plan();
    if (!/^[[?]/.test(text)) return operation;
    operation.free();
    const invalid = text.startsWith("[");
    const errors = JSON.parse(invalid ? text : text.slice(1)) as GraphqlError[];
    return { errors, invalid };
  }

  /** What is to be done next, all at once. */
  steps(operation: Operation): readonly Step[] {
    return JSON.parse(operation.steps()) as Step[];
  }

  /** The plan of a step's selection for a PV. */
  channel({ selection }: Step): Plan {
    let planned = this.#channels.get(selection);
    if (planned === undefined) {
      planned = programmed(planObject(selection), program(selection));
      if (this.#channels.size >= MAX_PLANS) this.#channels.clear();
      this.#channels.set(selection, planned);
    }
    return planned;
  }
}
