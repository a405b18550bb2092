/** Applies a plan to a JavaScript object, for data that isn't in the store's columns. */

/** Selects the fields of a plan from a source; from each entry if the source is a list. */
export type Project = (source: unknown) => unknown;

interface Field {
  readonly key: string;
  readonly name: string;
  readonly args: unknown;
  readonly inner: Project | undefined;
}

const TYPENAME = "__typename:";

/** Parses the arguments in a plan's line. */
export const readArguments = (args: string): unknown => (args === "" ? {} : JSON.parse(args));

/**
 * Parses a plan up to the end of its object and removes these lines. The value of a field is the
 * source's property of the same name; a method is called with the arguments.
 */
export function projection(lines: string[]): Project {
  const fields: Field[] = [];
  for (let line = lines.shift(); line !== undefined && line !== "}"; line = lines.shift()) {
    const [sign, key = "", name = "", , ...args] = line.split(" ");
    const inner = sign === "{" ? projection(lines) : undefined;
    if (sign !== "") fields.push({ key, name, args: readArguments(args.join(" ")), inner });
  }
  const show = (source: unknown): unknown => {
    if (source === null || source === undefined) return null;
    if (Array.isArray(source)) return source.map(show);
    // Created from entries, because a key may be `__proto__`.
    return Object.fromEntries(
      fields.map(({ key, name, args, inner }) => {
        if (name.startsWith(TYPENAME)) return [key, name.slice(TYPENAME.length)];
        const property = (source as Record<string, unknown>)[name];
        const value: unknown =
          typeof property === "function"
            ? (property as (args: unknown) => unknown)(args)
            : property;
        return [key, inner === undefined ? (value ?? null) : inner(value)];
      }),
    );
  };
  return show;
}
