/** Types and functions that local PVs and formulas share. */

import { PutError } from "../errors.js";
import type { Slot } from "../store/slot.js";
import type { PutResult } from "../types.js";
import { isLocal } from "./pv.js";

/** A client's entry for a local PV or a formula. */
export interface PagePv {
  readonly name: string;
  readonly filter: string;
  /** Listeners. A formula is evaluated only while it has some. */
  readonly handles: readonly unknown[];
  readonly slot: Slot | undefined;
}

/** The text of the formula, if the name is a formula. */
export const formulaOf = (name: string): string | undefined =>
  /^(?:=|eq:\/\/)(.*)$/s.exec(name)?.[1];

/** Whether a PV of this name is a local PV or a formula. */
export const isOfPage = (name: string): boolean => isLocal(name) || formulaOf(name) !== undefined;

export function failedPut(name: string, code: string, message: string): PutResult {
  return { ok: false, error: new PutError(name, code, message, false) };
}
