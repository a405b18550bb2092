/** Reads a display's XML without a browser, within the same bounds, for programs in Node. */

import { DisplayError, MAX_CHARACTERS, MAX_DEPTH, MAX_ELEMENTS, type XmlNode } from "./xml.js";

const NAME = "[\\p{L}_:][\\p{L}\\p{N}_:.\\-·]*";
const TEXT = /[^<]+/y;
const COMMENT = /<!--(?:(?!--)[^])*-->/y;
const CDATA = /<!\[CDATA\[([^]*?)\]\]>/y;
const INSTRUCTION = /<\?[^]*?\?>/y;
const START = new RegExp(`<(${NAME})`, "yu");
const ATTRIBUTE = new RegExp(`\\s+(${NAME})\\s*=\\s*(?:"([^<"]*)"|'([^<']*)')`, "yu");
const START_END = /\s*(\/?)>/y;
const END = new RegExp(`</(${NAME})\\s*>`, "yu");

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  apos: "'",
  gt: ">",
  lt: "<",
  quot: '"',
};

interface Open {
  readonly name: string;
  readonly attributes: Record<string, string>;
  readonly children: XmlNode[];
  text: string;
}

/** The root element. @throws DisplayError */
export function parsePlainXml(text: string): XmlNode {
  if (text.length > MAX_CHARACTERS) {
    throw new DisplayError("TOO_LARGE", `the file has more than ${String(MAX_CHARACTERS)} bytes`);
  }
  return new Parser(text.replace(/^\uFEFF/, "").trimStart()).root();
}

class Parser {
  #text: string;
  #at = 0;
  #elements = 0;
  #open: Open[] = [];
  #root: XmlNode | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  root(): XmlNode {
    while (this.#at < this.#text.length) this.#next();
    const [unclosed] = this.#open;
    if (unclosed !== undefined) this.#fail(`<${unclosed.name}> isn't closed`);
    return this.#root ?? this.#fail("there is no element");
  }

  #next(): void {
    const text = this.#match(TEXT)?.[0];
    if (text !== undefined) this.#addText(this.#decode(text));
    else if (this.#match(COMMENT) !== null || this.#match(INSTRUCTION) !== null) return;
    else if (this.#text.startsWith("<![CDATA[", this.#at)) {
      this.#addText((this.#match(CDATA) ?? this.#fail("a CDATA section isn't closed"))[1] ?? "");
    } else if (/^<!(?:DOCTYPE|ENTITY)/i.test(this.#text.slice(this.#at, this.#at + 9))) {
      this.#fail("the file has a document type, which displays don't have");
    } else if (this.#text.startsWith("</", this.#at)) this.#end();
    else this.#start();
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }

  #start(): void {
    const name = this.#match(START)?.[1] ?? this.#fail("a < begins no element");
    if (this.#root !== undefined) this.#fail("there is more than one element");
    this.#elements += 1;
    if (this.#elements > MAX_ELEMENTS || this.#open.length > MAX_DEPTH) {
      throw new DisplayError(
        "TOO_LARGE",
        `the file has more than ${String(MAX_ELEMENTS)} elements or ${String(MAX_DEPTH)} levels`,
      );
    }
    const attributes: Record<string, string> = {};
    for (let found = this.#match(ATTRIBUTE); found !== null; found = this.#match(ATTRIBUTE)) {
      const [, key = "", double, single] = found;
      if (Object.hasOwn(attributes, key)) this.#fail(`<${name}> has ${key} twice`);
      attributes[key] = this.#decode(double ?? single ?? "");
    }
    const [, slash] = this.#match(START_END) ?? this.#fail(`<${name}> isn't well-formed`);
    this.#open.push({ name, attributes, children: [], text: "" });
    if (slash === "/") this.#close();
  }

  #end(): void {
    const name = this.#match(END)?.[1] ?? this.#fail("an end tag isn't well-formed");
    const open = this.#open.at(-1)?.name;
    if (open !== name)
      this.#fail(`</${name}> ends ${open === undefined ? "nothing" : `<${open}>`}`);
    this.#close();
  }

  #close(): void {
    const element = this.#open.pop();
    const outer = this.#open.at(-1);
    if (outer === undefined) this.#root = element;
    else if (element !== undefined) outer.children.push(element);
  }

  #addText(text: string): void {
    const open = this.#open.at(-1);
    if (open !== undefined) open.text += text;
    else if (text.trim() !== "") this.#fail("there is text outside the element");
  }

  #decode(text: string): string {
    if (!text.includes("&")) return text;
    return text.replace(/&(?:#x([\da-f]+)|#(\d+)|([\w.-]+))?;?/gi, (whole, hex, decimal, name) => {
      const number = parseInt((hex ?? decimal ?? "") as string, hex === undefined ? 10 : 16);
      const isCharacter = number > 0 && number <= 0x10ffff;
      const known = isCharacter ? String.fromCodePoint(number) : ENTITIES[name as string];
      if (known === undefined || !whole.endsWith(";")) this.#fail(`${whole} is no known entity`);
      return known;
    });
  }

  #fail(why: string): never {
    const line = this.#text.slice(0, this.#at).split("\n").length;
    throw new DisplayError("NOT_XML", `line ${String(line)}: ${why}`);
  }
}
