/** Which PVs the operator of the relay wants confirmed before each write: `confirm_put` of the relay. */

import { t, type PvClient } from "pvwire";

const TIMEOUT_MS = 5000;

/** Patterns, or why they can't be read. */
export interface Confirmed {
  readonly patterns: readonly string[];
  readonly problem: string;
}

const fetchPatterns = async (): Promise<Confirmed> => {
  try {
    // Behind a proxy the relay may be at a path.
    const answer = await fetch("app.json", {
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    // A relay that serves the page from elsewhere, or an older one.
    if (answer.status === 404) return { patterns: [], problem: "" };
    if (!answer.ok) throw new Error(t`the relay answers ${String(answer.status)}`);
    const { confirmPut } = (await answer.json()) as { readonly confirmPut: readonly string[] };
    return { patterns: confirmPut, problem: "" };
  } catch (error) {
    // Rather once too often than not at all.
    return { patterns: ["*"], problem: error instanceof Error ? error.message : String(error) };
  }
};

let last: { readonly instance: string | undefined; readonly read: Promise<Confirmed> } | undefined;

/** Reads them from each relay once, and again if that failed. */
export async function readConfirmed({
  connection,
}: Pick<PvClient, "connection">): Promise<Confirmed> {
  const instance = connection.getSnapshot().relayInstance;
  if (last === undefined || last.instance !== instance) last = { instance, read: fetchPatterns() };
  const newest = last;
  const confirmed = await newest.read;
  if (confirmed.problem !== "" && last === newest) last = undefined;
  return confirmed;
}

const expressionOf = (pattern: string): RegExp => {
  const escaped = pattern.replace(/[\\^$.+()|[\]{}]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`, "su");
};

/** The name without its source, which a pattern or a link may leave out. */
const plainOf = (name: string): string => name.replace(/^[a-z]+:\/\//, "");

/** A name, the structure and the record whose field it is, and the record's value: with a field or without one. */
function ownersOf(name: string): readonly string[] {
  const [, structure = name] = /^((?:[a-z]+:\/\/)?[^/]+)\//.exec(name) ?? [];
  const [, record = structure, field = "VAL"] =
    /^(.+)\.([A-Za-z0-9_]*)\$?(?:[[{].*)?$/s.exec(structure) ?? [];
  return [name, structure, record, ...(field === "VAL" ? [`${record}.VAL`] : [])];
}

/** Whether a pattern fits a PV, or the record whose field it is. */
export function fits(pattern: string, name: string): boolean {
  // PVs of the page itself write nothing.
  if (name.startsWith("loc://")) return false;
  const expression = expressionOf(pattern);
  const names = [...ownersOf(name), ...ownersOf(plainOf(name))];
  if (names.some((each) => expression.test(each))) return true;
  // Which source a name without one has is known to the relay only.
  const isPlain = plainOf(name) === name;
  const plain = plainOf(pattern);
  return (
    isPlain && plain !== pattern && ownersOf(name).some((each) => expressionOf(plain).test(each))
  );
}
