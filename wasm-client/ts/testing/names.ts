/** The service `names` of the fake relay. */

import type { NamesResult } from "../types.js";

interface Question {
  readonly text: string;
  readonly limit?: number;
  /** The `next` of an earlier answer. */
  readonly after?: string;
}

/** Order of a name among those that were found. */
type Rank = readonly [isInside: number, length: number, lower: string, name: string];

function compare(one: Rank, other: Rank): number {
  for (const [at, part] of one.entries()) {
    const against = other[at] as typeof part;
    if (part !== against) return part < against ? -1 : 1;
  }
  return 0;
}

/** The answer to a question: as the relay's, of PVs of Channel Access. */
export function foundNames(names: readonly string[], question: string): NamesResult {
  const { after, limit = 20, text } = JSON.parse(question) as Question;
  const wanted = text.trim().toLowerCase();
  const isPattern = /[*?]/.test(wanted);
  const escaped = wanted.replace(/[\\^$.|+()[\]{}/]/g, "\\$&");
  const pattern = new RegExp(`^${escaped.replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "su");
  const rank = (name: string): Rank => {
    const lower = name.toLowerCase();
    return [isPattern || lower.startsWith(wanted) ? 0 : 1, lower.length, lower, name];
  };
  const from = after === undefined ? undefined : rank(after.replace(/^ca:\/\//, ""));
  const found = names
    .map(rank)
    .filter(([, , lower]) => (isPattern ? pattern.test(lower) : lower.includes(wanted)))
    .filter((each) => from === undefined || compare(each, from) > 0)
    .sort(compare)
    .map(([, , , name]) => name);
  const given = found.slice(0, limit);
  const last = given.at(-1);
  return {
    names: given.map((name) => ({ name, protocol: "ca", from: ["relay"] })),
    ...(found.length > limit && last !== undefined ? { next: `ca://${last}` } : {}),
  };
}
