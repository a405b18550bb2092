/** Replaces `$(NAME)`, `${NAME}` and `$(NAME=default)`, nested ones too. */

/** A value for a macro's name; `undefined` leaves the macro as it is written. */
export type Lookup = (name: string) => string | undefined;

/** Macros by name. */
export type Macros = ReadonlyMap<string, string>;

/** A list of macros as it is written in a file or given by an application. */
export type MacroSpecs = readonly (readonly [name: string, value: string])[];

/** A macro whose value contains itself ends here. */
const MAX_REPLACEMENTS = 200;
const MAX_CHARACTERS = 100_000;

const NAME = /^[A-Za-z][A-Za-z0-9_.\-[\]]*$/;

/** The text with its macros replaced; `\$` becomes `$`. */
export function expand(text: string, lookup: Lookup): string {
  if (!text.includes("$")) return text;
  let now = text;
  let from = 0;
  for (let count = 0; count < MAX_REPLACEMENTS && now.length <= MAX_CHARACTERS; count += 1) {
    const start = nextDollar(now, from);
    if (start < 0) break;
    const end = closingOf(now, start + 1);
    const value = end < 0 ? undefined : valueOf(now.slice(start + 2, end), lookup);
    if (value === undefined) {
      from = start + 1;
    } else {
      now = now.slice(0, start) + value + now.slice(end + 1);
      // A value may complete the name of an outer macro.
      from = 0;
    }
  }
  return now.replaceAll("\\$", "$");
}

function nextDollar(text: string, from: number): number {
  let start = text.indexOf("$", from);
  while (start > 0 && text[start - 1] === "\\") start = text.indexOf("$", start + 1);
  return start;
}

function valueOf(inside: string, lookup: Lookup): string | undefined {
  const sign = inside.indexOf("=");
  const name = sign > 0 ? inside.slice(0, sign) : inside;
  if (!NAME.test(name)) return undefined;
  return lookup(name) ?? (sign > 0 ? inside.slice(sign + 1) : undefined);
}

/** The place of the bracket that closes the one at `open`; -1 without one. */
function closingOf(text: string, open: number): number {
  const stack: string[] = [];
  for (let at = open; at < text.length; at += 1) {
    const sign = text[at];
    if (at === open && sign !== "(" && sign !== "{") return -1;
    if (sign === "\\") at += 1;
    else if (sign === "(" || sign === "{") stack.push(sign === "(" ? ")" : "}");
    else if (sign === stack.at(-1)) {
      stack.pop();
      if (stack.length === 0) return at;
    }
  }
  return -1;
}

/**
 * The macros of an inner scope: those of the outer one, and `specs`, which replace them. A value may use
 * the macros before it; `X=$(X)` is that of the outer scope.
 */
export function innerMacros(outer: Macros, specs: MacroSpecs): Macros {
  if (specs.length === 0) return outer;
  const inner = new Map(outer);
  for (const [name, value] of specs)
    inner.set(
      name,
      expand(value, (key) => inner.get(key)),
    );
  return inner;
}
