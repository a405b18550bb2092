/** Applies a plan to a JavaScript object, for what isn't in the store's columns. */

/** Shows a source through the fields of a plan; of a list each entry. */
export type Project = (source: unknown) => unknown;

interface Field {
  readonly key: string;
  readonly name: string;
  readonly args: unknown;
  readonly inner: Project | undefined;
}

const TYPENAME = "__typename:";

/** Arguments as a plan's line has them. */
export const readArguments = (args: string): unknown => (args === "" ? {} : JSON.parse(args));

/**
 * Reads a plan up to the end of its object and takes these lines away. A field shows the source's
 * property of its name; a method is called with the arguments.
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
    // Made of entries, because a key may be `__proto__`.
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
