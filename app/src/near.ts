/** Known names: for a first look, and those that resemble one that wasn't found. */

import type { PvClient } from "pvwire";

import { recordOf } from "./pasted";

/** How many names the relay is asked for with each part. */
const CANDIDATES = 200;
const MAX_PARTS = 4;
const SUGGESTIONS = 6;

/** More names are found by typing. */
const MAX_OFFERED = 100;

/** Names that differ in numbers only are offered as one from this number on. */
const MANY = 4;

/** Questions for a first look: each begins behind the numbered names of the one before. */
const MAX_QUESTIONS = 6;

/** A name, or a pattern of numbered names. */
export interface Offered {
  readonly name: string;
  readonly isPattern: boolean;
}

/** The pattern of all names that differ from this one in numbers only. The arguments of a simulated PV are no numbers of names. */
const patternOf = (name: string): string =>
  name.includes("://") ? name : name.replace(/\d+/g, "*");

/** The names in their order, numbered ones together as a pattern. */
export function folded(names: readonly string[]): Offered[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(patternOf(name), (counts.get(patternOf(name)) ?? 0) + 1);
  const isMany = (name: string): boolean => (counts.get(patternOf(name)) ?? 0) >= MANY;
  const shown = names.map((name) => (isMany(name) ? patternOf(name) : name));
  const isOf = (name: string): boolean => !names.includes(name);
  return [...new Set(shown)].map((name) => ({ name, isPattern: isOf(name) }));
}

/** Names for a first look from all that the relay knows, and whether there are more. Fields of records that are among them are left out. */
export async function knownNames(
  client: PvClient,
  part: string,
  signal: AbortSignal,
): Promise<{ readonly offered: readonly Offered[]; readonly hasMore: boolean }> {
  const names: string[] = [];
  let after: string | undefined;
  let hasMore = false;
  let offered: Offered[] = [];
  for (let question = 0; question < MAX_QUESTIONS && offered.length < MAX_OFFERED; question += 1) {
    const page = await client.names(part, {
      limit: MAX_OFFERED,
      signal,
      ...(after === undefined ? {} : { after }),
    });
    names.push(...page.names.map(({ name }) => name));
    const known = new Set(names);
    offered = folded(names.filter((name) => !known.has(recordOf(name)) || recordOf(name) === name));
    after = page.next;
    if (after === undefined) break;
    hasMore = true;
    // The last number of this length: further names of the pattern say nothing new.
    const pattern = patternOf(page.names.at(-1)?.name ?? "");
    if (offered.some(({ isPattern, name }) => isPattern && name === pattern)) {
      after = after.replace(/\d/g, "9");
    }
  }
  hasMore ||= offered.length > MAX_OFFERED;
  return { offered: offered.slice(0, MAX_OFFERED), hasMore };
}

/** Number of letters to insert, delete, replace or swap. */
export function distance(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= other.length; column += 1) {
      const isSame = one[row - 1] === other[column - 1];
      const swaps = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      const ways = [
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
        swaps ? (before[column - 2] ?? Infinity) + 1 : Infinity,
      ];
      next.push(Math.min(...ways));
    }
    [before, last] = [last, next];
  }
  return last[other.length] ?? 0;
}

/** Texts to ask for: whole parts of the name, its first and its last letters. */
export function partsOf(name: string): string[] {
  const plain = name.replace(/^[a-z]+:\/\//, "").replace(/\.[A-Z0-9]+$/, "");
  const parts = plain.split(/[^\p{L}\p{N}]+/u).filter((part) => part.length > 1);
  const longest = [...parts].sort((a, b) => b.length - a.length);
  const half = Math.ceil(plain.length / 2);
  const all = [plain, ...longest, plain.slice(0, half), plain.slice(half)];
  return [...new Set(all)].filter((part) => part.length > 1).slice(0, MAX_PARTS + 1);
}

export async function nearNames(
  client: PvClient,
  name: string,
  signal: AbortSignal,
): Promise<string[]> {
  const found = await Promise.all(
    partsOf(name).map((part) =>
      client.names(part.replace(/[*?]/g, ""), { limit: CANDIDATES, signal }).catch(() => undefined),
    ),
  );
  const names = new Set(found.flatMap((result) => result?.names.map((each) => each.name) ?? []));
  names.delete(name);
  const wanted = name.toLowerCase();
  return [...names]
    .map((each) => [distance(wanted, each.toLowerCase()), each] as const)
    .filter(([far]) => far <= Math.max(3, Math.ceil(wanted.length / 2)))
    .sort(([a, one], [b, other]) => a - b || (one < other ? -1 : 1))
    .slice(0, SUGGESTIONS)
    .map(([, each]) => each);
}
