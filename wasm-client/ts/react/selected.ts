/** The TypeScript type of the result of a literal selection. */

import type { PvData } from "../types.js";

type Blank = " " | "\n" | "\t" | "\r" | ",";

type Trim<S extends string> = S extends `${Blank}${infer Rest}` ? Trim<Rest> : S;

/** A name at the start of `S`, and what follows. */
type Word<S extends string, Name extends string = ""> = S extends `${infer First}${infer Rest}`
  ? First extends Blank | "{" | "}" | "(" | ":"
    ? [Name, S]
    : Word<Rest, `${Name}${First}`>
  : [Name, ""];

type AfterArguments<S extends string> =
  Trim<S> extends `(${string})${infer Rest}` ? Trim<Rest> : Trim<S>;

type FieldOf<Of, Name extends string> = Name extends keyof Of
  ? Of[Name]
  : Name extends "__typename"
    ? string
    : unknown;

type Plain<T> = { readonly [K in keyof T]: T[K] };

/**
 * Fields up to the end of their object: its type, and the remaining text; `never` for invalid text.
 */
type Fields<S extends string, Of, Seen> =
  Trim<S> extends infer T extends string
    ? T extends `}${infer Rest}`
      ? [Plain<Seen>, Rest]
      : T extends "" | `...${string}` | `#${string}` | `@${string}`
        ? never
        : Word<T> extends [infer Key extends string, infer Rest extends string]
          ? Trim<Rest> extends `:${infer Aliased}`
            ? Word<Trim<Aliased>> extends [
                infer Name extends string,
                infer AfterName extends string,
              ]
              ? Field<Key, FieldOf<Of, Name>, AfterArguments<AfterName>, Of, Seen>
              : never
            : Field<Key, FieldOf<Of, Key>, AfterArguments<Rest>, Of, Seen>
          : never
    : never;

type Field<Key extends string, Type, S extends string, Of, Seen> = S extends `{${infer Inner}`
  ? // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- nothing seen yet
    Fields<Inner, NonNullable<Type>, {}> extends [infer Shown, infer Rest extends string]
    ? Fields<Rest, Of, Seen & Readonly<Record<Key, null extends Type ? Shown | null : Shown>>>
    : never
  : Fields<S, Of, Seen & Readonly<Record<Key, Type>>>;

/**
 * The result type of `selection`: `Selected<"{ value { string } }">` is `{ readonly value: {
 * readonly string: string } | null }`. It is `unknown` for a selection with fragments, directives
 * or comments, and `PvData` for a text that the compiler doesn't know.
 */
export type Selected<S extends string> = string extends S
  ? PvData
  : Trim<S> extends `{${infer Inner}`
    ? // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- nothing seen yet
      [Fields<Inner, PvData, {}>] extends [[infer Shown, string]]
      ? Shown
      : unknown
    : unknown;
