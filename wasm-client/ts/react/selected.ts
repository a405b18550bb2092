/** The TypeScript type of the result of a literal selection. */

import type {
  PvConnection,
  PvData,
  PvDisplay,
  PvRange,
  PvSkips,
  PvStatus,
  PvTime,
  PvValue,
} from "../types.js";

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

/** Fields that only `pvwire/graphql` answers. */
type OfGraphql =
  "base64Array" | "stringArray" | "float64Array" | "table" | "ndArray" | "role" | "widget";

/** Why there is no such field; `never` if there is one. */
type NoField<Of, Name extends string> = unknown extends Of
  ? never
  : Name extends keyof Of | "__typename"
    ? never
    : Name extends OfGraphql
      ? `the field ${Name} is answered by pvwire/graphql only`
      : `there is no field ${Name}`;

/** Objects, of which fields must be selected. */
type Objects = PvValue | PvTime | PvStatus | PvDisplay | PvConnection | PvSkips | PvRange;

type IsObject<Type> = [NonNullable<Type>] extends [Objects] ? true : false;

type Plain<T> = { readonly [K in keyof T]: T[K] };

/**
 * Fields up to the end of their object: its type, the remaining text, and what is wrong with them;
 * `never` for a text that isn't understood here.
 */
type Fields<S extends string, Of, Seen, Wrong> =
  Trim<S> extends infer T extends string
    ? T extends `}${infer Rest}`
      ? [Plain<Seen>, Rest, Wrong]
      : T extends "" | `...${string}` | `#${string}` | `@${string}`
        ? never
        : Word<T> extends [infer Key extends string, infer Rest extends string]
          ? Trim<Rest> extends `:${infer Aliased}`
            ? Word<Trim<Aliased>> extends [
                infer Name extends string,
                infer AfterName extends string,
              ]
              ? Field<Key, Name, AfterArguments<AfterName>, Of, Seen, Wrong>
              : never
            : Field<Key, Key, AfterArguments<Rest>, Of, Seen, Wrong>
          : never
    : never;

type Field<Key extends string, Name extends string, S extends string, Of, Seen, Wrong> =
  FieldOf<Of, Name> extends infer Type
    ? S extends `{${infer Inner}`
      ? Fields<
          Inner,
          IsObject<Type> extends true ? NonNullable<Type> : unknown,
          // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- nothing seen yet
          {},
          IsObject<Type> extends true
            ? Wrong
            : | Wrong
              | (Name extends keyof Of ? `the field ${Name} has no fields` : NoField<Of, Name>)
        > extends [infer Shown, infer Rest extends string, infer Bad]
        ? Fields<
            Rest,
            Of,
            Seen & Readonly<Record<Key, null extends Type ? Shown | null : Shown>>,
            Bad
          >
        : never
      : Fields<
          S,
          Of,
          Seen & Readonly<Record<Key, Type>>,
          | Wrong
          | NoField<Of, Name>
          | (IsObject<Type> extends true ? `the field ${Name} needs fields: ${Name} { … }` : never)
        >
    : never;

type Read<S extends string> =
  Trim<S> extends `{${infer Inner}`
    ? // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- nothing seen yet
      Fields<Inner, PvData, {}, never>
    : never;

/**
 * The result type of `selection`: `Selected<"{ value { string } }">` is `{ readonly value: {
 * readonly string: string } | null }`. It is `unknown` for a selection with fragments, directives
 * or comments, and `PvData` for a text that the compiler doesn't know.
 */
export type Selected<S extends string> = string extends S
  ? PvData
  : [Read<S>] extends [[infer Shown, string, unknown]]
    ? [Read<S>] extends [never]
      ? unknown
      : Shown
    : unknown;

/**
 * What is accepted as the selection `S`: itself, or a text that says which field of it is wrong. The
 * compiler shows that text.
 */
export type Checked<S extends string> = string extends S
  ? S
  : [Read<S>] extends [never]
    ? S
    : Read<S> extends [unknown, string, infer Wrong]
      ? [Wrong] extends [never]
        ? S
        : Wrong
      : S;

/** A selection whose result has the type `T`; without a type no selection is accepted. */
export type Stated<T> = [T] extends [never] ? never : string;
