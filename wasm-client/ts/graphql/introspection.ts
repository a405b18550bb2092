/**
 * Introspection of the schema, parsed from its text at the first request, for example of GraphiQL.
 */

import { schemaSdl } from "./sdl.js";

/** The types that every schema has in addition to its own. */
const BUILT_IN = `
"""A whole number, exact up to 32 bits."""
scalar Int
"""A finite number of double precision."""
scalar Float
"""Text."""
scalar String
"""true or false."""
scalar Boolean
"""The name of a PV, with or without its source."""
scalar ID
type __Schema {
  description: String
  types: [__Type!]!
  queryType: __Type!
  mutationType: __Type
  subscriptionType: __Type
  directives(includeDeprecated: Boolean! = false): [__Directive!]!
}
type __Type {
  kind: __TypeKind!
  name: String
  description: String
  specifiedByURL: String
  fields(includeDeprecated: Boolean = false): [__Field!]
  interfaces: [__Type!]
  possibleTypes: [__Type!]
  enumValues(includeDeprecated: Boolean = false): [__EnumValue!]
  inputFields(includeDeprecated: Boolean = false): [__InputValue!]
  ofType: __Type
  isOneOf: Boolean
}
type __Field {
  name: String!
  description: String
  args(includeDeprecated: Boolean = false): [__InputValue!]!
  type: __Type!
  isDeprecated: Boolean!
  deprecationReason: String
}
type __InputValue {
  name: String!
  description: String
  type: __Type!
  defaultValue: String
  isDeprecated: Boolean!
  deprecationReason: String
}
type __EnumValue {
  name: String!
  description: String
  isDeprecated: Boolean!
  deprecationReason: String
}
type __Directive {
  name: String!
  description: String
  isRepeatable: Boolean!
  locations: [__DirectiveLocation!]!
  args(includeDeprecated: Boolean = false): [__InputValue!]!
  isDeprecated: Boolean!
  deprecationReason: String
}
enum __TypeKind { SCALAR OBJECT INTERFACE UNION ENUM INPUT_OBJECT LIST NON_NULL }
enum __DirectiveLocation {
  QUERY MUTATION SUBSCRIPTION FIELD FRAGMENT_DEFINITION FRAGMENT_SPREAD INLINE_FRAGMENT
  VARIABLE_DEFINITION SCHEMA SCALAR OBJECT FIELD_DEFINITION ARGUMENT_DEFINITION INTERFACE UNION ENUM
  ENUM_VALUE INPUT_OBJECT INPUT_FIELD_DEFINITION DIRECTIVE_DEFINITION
}
"""Shows the field or fragment only if the argument is true."""
directive @include(if: Boolean!) on FIELD FRAGMENT_SPREAD INLINE_FRAGMENT
"""Leaves the field or fragment out if the argument is true."""
directive @skip(if: Boolean!) on FIELD FRAGMENT_SPREAD INLINE_FRAGMENT
"""Marks what should not be used any more."""
directive @deprecated(reason: String = "No longer supported") on
  FIELD_DEFINITION ARGUMENT_DEFINITION INPUT_FIELD_DEFINITION ENUM_VALUE DIRECTIVE_DEFINITION
"""Says where a scalar is described."""
directive @specifiedBy(url: String!) on SCALAR
"""Says that exactly one field of an input object must be given."""
directive @oneOf on INPUT_OBJECT
`;

type Fields = Readonly<Record<string, unknown>>;

/** Properties that are required but never set in this schema. */
const CURRENT = { isDeprecated: false, deprecationReason: null };

class Reader {
  #tokens: readonly string[];
  #at = 0;
  readonly types = new Map<string, Fields>();
  readonly directives: Fields[] = [];
  #roots: Record<string, string> = {};
  #description: string | null = null;

  constructor(sdl: string) {
    this.#tokens = sdl.match(/"""[^]*?"""|"[^"]*"|\w+|[{}()[\]:=!@]/g) ?? [];
    while (this.#at < this.#tokens.length) this.#definition();
  }

  get schema(): Fields {
    const root = (operation: string): unknown => this.types.get(this.#roots[operation] ?? "");
    return {
      description: this.#description,
      types: [...this.types.values()],
      queryType: root("query"),
      mutationType: root("mutation"),
      subscriptionType: root("subscription"),
      directives: this.directives,
    };
  }

  /** Consumes a token; any token, or the expected one. */
  #take(expected?: string): string {
    const token = this.#tokens[this.#at++] ?? "";
    if (expected !== undefined && token !== expected) {
      throw new Error(`the schema has ${token} where ${expected} should be`);
    }
    return token;
  }

  #skip(token: string): boolean {
    const fits = this.#tokens[this.#at] === token;
    if (fits) this.#at += 1;
    return fits;
  }

  #describe(): string | null {
    if (this.#tokens[this.#at]?.startsWith('"""') !== true) return null;
    const lines = this.#take().slice(3, -3).trim().split("\n");
    return lines.map((line) => line.trim()).join("\n");
  }

  /** The entries between brackets, up to the closing one. */
  #list<T>(close: string, entry: () => T): T[] {
    const list: T[] = [];
    while (!this.#skip(close)) list.push(entry());
    return list;
  }

  #definition(): void {
    const description = this.#describe();
    const word = this.#take();
    switch (word) {
      case "schema":
        this.#description = description;
        this.#take("{");
        this.#list("}", () => {
          const operation = this.#take();
          this.#take(":");
          this.#roots[operation] = this.#take();
        });
        break;
      case "directive":
        this.#directive(description);
        break;
      default:
        this.#type(word, description);
    }
  }

  #type(word: string, description: string | null): void {
    const name = this.#take();
    const kind = { type: "OBJECT", enum: "ENUM", scalar: "SCALAR" }[word];
    if (kind === undefined) throw new Error(`the schema has ${word} where a definition should be`);
    const isObject = kind === "OBJECT";
    if (kind !== "SCALAR") this.#take("{");
    const fields = isObject ? this.#list("}", () => this.#field()) : null;
    const enumValues = kind === "ENUM" ? this.#list("}", () => this.#enumValue()) : null;
    const interfaces = isObject ? [] : null;
    this.types.set(name, { kind, name, description, fields, interfaces, enumValues });
  }

  #enumValue(): Fields {
    return { description: this.#describe(), name: this.#take(), ...CURRENT };
  }

  #field(): Fields {
    const description = this.#describe();
    const name = this.#take();
    const args = this.#arguments();
    this.#take(":");
    return { name, description, args, type: this.#reference(), ...CURRENT };
  }

  #arguments(): Fields[] {
    if (!this.#skip("(")) return [];
    return this.#list(")", () => {
      const description = this.#describe();
      const name = this.#take();
      this.#take(":");
      const type = this.#reference();
      const defaultValue = this.#skip("=") ? this.#take() : null;
      return { name, description, type, defaultValue, ...CURRENT };
    });
  }

  /** Types refer to each other in cycles, so each is looked up when it is read. */
  #reference(): () => unknown {
    let type: () => unknown;
    if (this.#skip("[")) {
      const ofType = this.#reference();
      this.#take("]");
      type = () => ({ kind: "LIST", ofType });
    } else {
      const name = this.#take();
      type = () => this.types.get(name);
    }
    const ofType = type;
    return this.#skip("!") ? () => ({ kind: "NON_NULL", ofType }) : type;
  }

  #directive(description: string | null): void {
    this.#take("@");
    const name = this.#take();
    const args = this.#arguments();
    this.#take("on");
    const locations: string[] = [];
    while (/^[A-Z_]+$/.test(this.#tokens[this.#at] ?? "")) locations.push(this.#take());
    this.directives.push({ name, description, args, locations, isRepeatable: false, ...CURRENT });
  }
}

let reader: Reader | undefined;

/** The value of `__schema`. */
export function introspectSchema(): unknown {
  reader ??= new Reader(schemaSdl + BUILT_IN);
  return reader.schema;
}

/** The value of `__type`. */
export function introspectType(name: string): unknown {
  reader ??= new Reader(schemaSdl + BUILT_IN);
  return reader.types.get(name);
}
