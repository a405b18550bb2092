/** PV names in text that people paste: lists, mails, commands and what the commands have printed. */

import { isTitle } from "./groups";

/** Programs whose arguments are names. */
const COMMAND = /^(?:\S*\/)?(?:ca|pv|pvx)(?:get|put|monitor|info|mon|snoop)(?:\.exe)?$/i;

/** Programs that take one name, and then a value. */
const PUTS = /put(?:\.exe)?$/i;

/** Options with an argument, by the ends of these programs' names. */
const WITH_ARGUMENT: readonly (readonly [program: RegExp, options: RegExp])[] = [
  [/caget$/, /^-[wpefglFd#0]$/],
  [/camonitor$/, /^-[wpefglFmt#0]$/],
  [/cainfo$/, /^-[wps]$/],
  [/caput$/, /^-[wp#F]$/],
  [/./, /^-[wpFrfM#]$/],
];

const QUOTES = /^["'`‘’“”«»<([{]+|["'`‘’“”«»>)\]},;]+$/g;

/** A name with a filter of EPICS 7, which is JSON, or a formula. */
const WHOLE = /^(?:=|eq:\/\/|\S+\.\{.*\}$|loc:\/\/)/;

/** The arguments of a simulated PV are a part of its name, with what separates other names. */
const WORD = /["'`‘“]*[sp]?sim:\/\/[^\s,;|(]*\([^)]*\)|[^\s,;|]+/g;

const PROMPT = /^(?:\[[^\]]*\][$%#>]\s+|[\w.@~:/-]*[$%>]\s+|[\w.@~:/-]+#\s+|>+\s*)/;

/** Whether a word could follow a name in what `caget` or `camonitor` printed. */
const isPrinted = (word: string): boolean =>
  /^(?:[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)|\d{4}-\d\d-\d\d|\*\*\*)$/i.test(word);

const bare = (word: string): string => {
  const cleaned = word.replace(QUOTES, "");
  // An array's index or a macro ends with its own bracket.
  return /[[{(]/.test(cleaned)
    ? word.replace(/^["'`]+|["'`,;]+$/g, "")
    : cleaned.replace(/\.$/, "");
};

const isName = (word: string): boolean => /[a-z]/i.test(word) && !/^[-=]+$/.test(word);

function namesOfCommand([command = "", ...rest]: readonly string[]): string[] {
  const names: string[] = [];
  const program = command.toLowerCase().replace(/\.exe$/, "");
  const [, withArgument] = WITH_ARGUMENT.find(([name]) => name.test(program)) ?? [];
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at] ?? "";
    if (withArgument?.test(word) === true) at += 1;
    else if (!word.startsWith("-")) names.push(word);
  }
  return PUTS.test(command) ? names.slice(0, 1) : names;
}

function namesOfLine(line: string): string[] {
  const text = line.replace(PROMPT, "").trim();
  if (text === "" || text.startsWith("#")) return [];
  if (WHOLE.test(text)) return [text];
  const words = text.match(WORD) ?? [];
  const [first = "", second = ""] = words;
  if (COMMAND.test(first)) return namesOfCommand(words).map(bare).filter(isName);
  const isOutput = !/[,;|]/.test(text) && isPrinted(second);
  return (isOutput ? [first] : words).map(bare).filter(isName);
}

/** Blanks that mail programs and web pages insert, and that no name has, become plain ones or nothing. */
const linesIn = (text: string): string[] =>
  text
    .replace(/[\u00a0\u2007\u202f]/g, " ")
    .replace(/[\u200b-\u200d\ufeff]/g, "")
    .split(/[\r\n]+/);

/** All names in a text, each once, in their order. */
export const namesIn = (text: string): string[] => [...new Set(linesIn(text).flatMap(namesOfLine))];

/** The record of a name, which may be one of its fields. */
export const recordOf = (name: string): string => name.replace(/\.[A-Z][A-Z0-9]*\$?$/, "");

/** A line that begins with # is the title of a group, if it has a word. */
function entriesOfLine(line: string): string[] {
  const [, title = ""] = /^\s*#+\s*(.*?)\s*$/.exec(line) ?? [];
  return /\w/.test(title) ? [`# ${title}`] : namesOfLine(line);
}

/** Names in their order, each once in its group, and titles. */
export const entriesIn = (text: string): string[] => eachOnce(linesIn(text).flatMap(entriesOfLine));

/** A list with each PV once in its group. */
export function eachOnce(entries: readonly string[]): string[] {
  const known = new Set<string>();
  return entries.filter((entry) => {
    if (isTitle(entry)) {
      known.clear();
      return true;
    }
    const isNew = !known.has(entry);
    known.add(entry);
    return isNew;
  });
}

/** The cells of a line of CSV. */
const cellsIn = (line: string): string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, bare = ""]) =>
    (quoted?.replaceAll('""', '"') ?? bare).trim(),
  );

/** Names and titles of a file: a list in any form, or the column PV of a table as CSV, such as this app and Phoebus write. */
export function entriesOfFile(text: string): string[] {
  const lines = linesIn(text);
  const head = lines.findIndex((line) => line.trim() !== "" && !line.startsWith("#"));
  const column = cellsIn(lines[head] ?? "").findIndex((cell) => /^pv(?: name)?$/i.test(cell));
  if (column < 0) return entriesIn(text);
  const names = lines
    .slice(head + 1)
    // The app writes an apostrophe before a formula.
    .map((line) => (cellsIn(line)[column] ?? "").replace(/^'(?=[=+@-])/, ""));
  return eachOnce(names.filter((name) => name !== ""));
}
