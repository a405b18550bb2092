/** What PVs of the page have in common: local PVs and formulas. */

import { PutError } from "../errors.js";
import type { Slot } from "../store/slot.js";
import type { PutResult } from "../types.js";
import { isLocal } from "./pv.js";

/** A client's entry of a PV of the page. */
export interface PagePv {
  readonly name: string;
  readonly filter: string;
  /** Listeners; evaluated only while there are some. */
  readonly handles: readonly unknown[];
  readonly slot: Slot | undefined;
}

/** The text of a formula, if the name is one. */
export const formulaOf = (name: string): string | undefined =>
  /^(?:=|eq:\/\/)(.*)$/s.exec(name)?.[1];

/** Whether the relay has no part in a PV of this name. */
export const isOfPage = (name: string): boolean => isLocal(name) || formulaOf(name) !== undefined;

export function failedPut(name: string, code: string, message: string): PutResult {
  return { ok: false, error: new PutError(name, code, message, false) };
}
