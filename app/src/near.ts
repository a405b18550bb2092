/** Known names that resemble one that wasn't found. */

import type { PvClient } from "pvwire";

/** How many names the relay is asked for with each part. */
const CANDIDATES = 200;
const MAX_PARTS = 4;
const SUGGESTIONS = 6;

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
