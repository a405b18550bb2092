/** The properties of one widget: what its file says, else the type's default, with macros replaced. */

import { expand, type Lookup } from "./macros.js";
import { styleOf, type Font, type Palette, type Rgba } from "./palette.js";
import { childOf, type XmlNode } from "./xml.js";

/** A property's default: the name of a colour or font begins with `@`. */
export type Default = string | number | boolean | Rgba;
export type Defaults = Readonly<Record<string, Default>>;

/** What rules set, by the property's name or path such as `traces[0].visible`. */
export type Overrides = ReadonlyMap<string, XmlNode | string | number | boolean>;

const NO_OVERRIDES: Overrides = new Map();

/** What properties need besides the widget's own element. */
export interface PropsContext {
  /** `$(DID)`, `$(DNAME)` and the scope's macros. */
  readonly lookup: Lookup;
  readonly palette: Palette;
}

export class Props {
  readonly node: XmlNode;
  #defaults: Defaults;
  #context: PropsContext;
  #overrides: Overrides;
  #path: string;

  constructor(
    node: XmlNode,
    defaults: Defaults,
    context: PropsContext,
    overrides: Overrides = NO_OVERRIDES,
    path = "",
  ) {
    this.node = node;
    this.#defaults = defaults;
    this.#context = context;
    this.#overrides = overrides;
    this.#path = path;
  }

  /** The same with the values that rules have set. */
  with(overrides: Overrides): Props {
    return new Props(this.node, this.#defaults, this.#context, overrides, this.#path);
  }

  /** Whether the file or a rule has the property. */
  has(name: string): boolean {
    return this.#overrides.has(this.#path + name) || childOf(this.node, name) !== undefined;
  }

  /** A text. Also numbers and truth values, as they are written. */
  text(name: string, otherwise?: string): string {
    const found = this.#written(name);
    if (found !== undefined) return this.#expand(found, name);
    const value = otherwise ?? this.#defaults[name];
    return typeof value === "string" ? this.#expand(value) : String(value ?? "");
  }

  number(name: string, otherwise?: number): number {
    const fallback = otherwise ?? Number(this.#defaults[name] ?? 0);
    const found = this.#written(name);
    if (found === undefined) return fallback;
    const text = this.#expand(found, name).trim();
    const number = /^(?:true|false)$/i.test(text) ? Number(/true/i.test(text)) : numberOf(text);
    return text === "" || (Number.isNaN(number) && !/^nan$/i.test(text)) ? fallback : number;
  }

  /** A number without its fraction. */
  integer(name: string, otherwise?: number): number {
    return Math.trunc(this.number(name, otherwise));
  }

  flag(name: string, otherwise?: boolean): boolean {
    const fallback = otherwise ?? this.#defaults[name] === true;
    const found = this.#written(name);
    if (found === undefined) return fallback;
    const text = this.#expand(found, name).trim().toLowerCase();
    if (/^(?:true|yes|1)$/.test(text)) return true;
    return /^(?:false|no|0)$/.test(text) ? false : numberOf(text) > 0;
  }

  /** One of some choices, written as its index or its name. */
  choice(name: string, choices: readonly string[], otherwise = this.#defaults[name]): string {
    const text = this.has(name) ? this.text(name).trim() : String(otherwise ?? "");
    const byName = choices.find((choice) => choice.toLowerCase() === text.toLowerCase());
    const fallback = typeof otherwise === "number" ? choices[otherwise] : otherwise;
    return byName ?? choices[Number(text || NaN)] ?? String(fallback ?? choices[0]);
  }

  colour(name: string, otherwise?: Rgba | string): Rgba {
    const override = this.#overrides.get(this.#path + name);
    const node = typeof override === "object" ? override : childOf(this.node, name);
    const colour = node && childOf(node, "color");
    if (colour !== undefined) return this.#colourOf(colour);
    const value = otherwise ?? this.#defaults[name];
    if (Array.isArray(value)) return value as unknown as Rgba;
    const named = String(value ?? "@text").slice(1);
    return this.#context.palette.colours.get(named) ?? [0, 0, 0, 255];
  }

  #colourOf({ attributes }: XmlNode): Rgba {
    const known = this.#context.palette.colours.get((attributes.name ?? "").trim().toLowerCase());
    if (known !== undefined) return known;
    const part = (name: string, otherwise: number): number => {
      const number = Math.trunc(Number(attributes[name] ?? otherwise));
      return Number.isNaN(number) ? otherwise : Math.max(0, Math.min(255, number));
    };
    return [part("red", 0), part("green", 0), part("blue", 0), part("alpha", 255)];
  }

  font(name = "font", otherwise = "Default"): Font {
    const { fonts } = this.#context.palette;
    const override = this.#overrides.get(this.#path + name);
    const outer = typeof override === "object" ? override : childOf(this.node, name);
    const node = outer && (childOf(outer, "font") ?? childOf(outer, "fontdata"));
    const standard = fonts.get(otherwise) ?? { family: "sans-serif", size: 14, ...styleOf("") };
    if (node === undefined) return standard;
    const { family, name: named = "", size, style } = node.attributes;
    const known = fonts.get(named);
    if (known !== undefined) return known;
    const pixels = Number(size);
    return {
      family: family ?? standard.family,
      size: pixels > 0 ? Math.min(pixels, 1000) : standard.size,
      ...styleOf(style ?? ""),
    };
  }

  /** The elements of a list, each with its own properties. */
  list(name: string, defaults: Defaults = {}): Props[] {
    const list = childOf(this.node, name)?.children ?? [];
    return list.map((node, at) => this.#inner(node, defaults, `${name}[${String(at)}].`));
  }

  /** The texts of a list. */
  texts(name: string): string[] {
    return (childOf(this.node, name)?.children ?? []).map(({ text }) => this.#expand(text));
  }

  /** A property that has properties. */
  sub(name: string, defaults: Defaults = {}): Props {
    const none: XmlNode = { name, attributes: {}, children: [], text: "" };
    return this.#inner(childOf(this.node, name) ?? none, defaults, `${name}.`);
  }

  /** The element's own text, for lists of texts and numbers. */
  get own(): string {
    return this.#expand(this.node.text);
  }

  #inner(node: XmlNode, defaults: Defaults, path: string): Props {
    return new Props(node, defaults, this.#context, this.#overrides, this.#path + path);
  }

  #written(name: string): string | undefined {
    const override = this.#overrides.get(this.#path + name);
    if (override !== undefined) {
      return typeof override === "object" ? override.text : String(override);
    }
    return childOf(this.node, name)?.text;
  }

  /**
   * Replaces macros; a widget's own properties are macros too, such as `$(pv_name)`. In what a rule sets
   * a property to, the property itself is what the file says.
   */
  #expand(text: string, of?: string): string {
    return expand(text, (name) => this.#context.lookup(name) ?? this.macro(name, name !== of));
  }

  /** The property as a macro, with its own macros as they are written; `undefined` if there is no such property. */
  macro(name: string, withRules = true): string | undefined {
    const override = withRules ? this.#overrides.get(this.#path + name) : undefined;
    if (override !== undefined) {
      return typeof override === "object" ? override.text : String(override);
    }
    const node = childOf(this.node, name);
    if (node === undefined) {
      const value = this.#defaults[name];
      return value === undefined || Array.isArray(value) ? undefined : String(value);
    }
    // A list of one is that one, for buttons whose text is `$(actions)`.
    const [only, second] = node.children;
    if (only === undefined || second !== undefined) return node.text;
    return childOf(only, "description")?.text ?? only.attributes.type ?? only.text;
  }
}

function numberOf(text: string): number {
  if (/^[+-]?inf(?:inity)?$/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  return text === "" ? NaN : Number(text);
}
