/** The list in a text that people paste or write: PVs, and titles of their groups. */

import { isTitle } from "./groups";
import { linesIn, namesOfLine } from "./pasted";

/** A line that begins with # is the title of a group, if it has a word. */
function entriesOfLine(line: string): string[] {
  const [, title = ""] = /^\s*#+\s*(.*?)\s*$/.exec(line) ?? [];
  return /\w/.test(title) ? [`# ${title}`] : namesOfLine(line);
}

/** Names in their order, each once, and titles. */
export const entriesIn = (text: string): string[] => eachOnce(linesIn(text).flatMap(entriesOfLine));

/** A list with each PV once. */
export function eachOnce(entries: readonly string[]): string[] {
  const known = new Set<string>();
  return entries.filter((entry) => {
    if (isTitle(entry)) return true;
    const isNew = !known.has(entry);
    known.add(entry);
    return isNew;
  });
}
