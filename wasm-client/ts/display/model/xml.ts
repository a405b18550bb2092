/** Reads a display's XML within bounds. It defines no entities. */

/** Why a file isn't a display. `message` is for operators. */
export class DisplayError extends Error {
  /** Which kind of error: unreadable, not XML, not a display, or too large. */
  readonly code: "UNREADABLE" | "NOT_XML" | "NOT_A_DISPLAY" | "TOO_LARGE";

  /** The code, and the message for operators. */
  constructor(code: DisplayError["code"], message: string) {
    super(message);
    this.name = "DisplayError";
    this.code = code;
  }
}

/** An element of a display file. */
export interface XmlNode {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: readonly XmlNode[];
  /** The element's own text, as it is written. */
  readonly text: string;
}

/** The largest known display has 6 MB and 150,000 elements, in 20 levels. */
export const MAX_CHARACTERS = 32 * 1024 * 1024;
export const MAX_ELEMENTS = 500_000;
export const MAX_DEPTH = 100;

const NAME = "[A-Za-z_:\\x80-\\uffff][\\w:.\\-\\x80-\\uffff]*";

/** A text; the end of an element; its beginning, with its attributes; a section; a comment; or an instruction. */
const PIECE = new RegExp(
  `([^<]+)|</(${NAME})\\s*>|<(${NAME})((?:\\s+${NAME}\\s*=\\s*(?:"[^<"]*"|'[^<']*'))*)\\s*(/?)>` +
    "|<!\\[CDATA\\[([^]*?)]]>|<!--(?:(?!--)[^])*-->|<\\?[^]*?\\?>",
  "y",
);
const ATTRIBUTE = /([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g;

const ENTITIES = new Map(Object.entries({ amp: "&", apos: "'", gt: ">", lt: "<", quot: '"' }));

const OUTSIDE = "there is more than one element, or text outside of it";

/** Of most elements: thousands of empty objects would take time. */
const NO_ATTRIBUTES = {};
const NO_CHILDREN: XmlNode[] = [];

interface Open {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  children: XmlNode[];
  text: string;
}

const tooLarge = (): DisplayError => {
  const most = `${String(MAX_ELEMENTS)} elements or ${String(MAX_DEPTH)} levels`;
  return new DisplayError("TOO_LARGE", `the file has more than 32 MiB, ${most}`);
};

/** The root element. A browser's own parser takes three times as long. @throws DisplayError */
export function parseXml(written: string): XmlNode {
  if (written.length > MAX_CHARACTERS) throw tooLarge();
  const source = written.trim().replace(/\r\n?/g, "\n");
  const inside: Open[] = [];
  let at = 0;
  let elements = 0;
  let present: Open | undefined;
  let root: Open | undefined;
  const fail = (why: string): never => {
    const line = source.slice(0, at).split("\n").length;
    throw new DisplayError("NOT_XML", `line ${String(line)}: ${why}`);
  };
  const decode = (text: string): string =>
    text.includes("&")
      ? text.replace(/&(?:#(x[\da-f]+|\d+)|(\w*));|&/gi, (whole, code, name: string) => {
          const number = Number(`0${String(code)}`);
          const isCharacter = number > 0 && number <= 0x10ffff;
          const known = isCharacter ? String.fromCodePoint(number) : ENTITIES.get(name);
          return known ?? fail(`${whole} is no known entity`);
        })
      : text;
  const attributesOf = (list: string): Record<string, string> => {
    const attributes: Record<string, string> = {};
    for (const [, name = "", double, single = ""] of list.matchAll(ATTRIBUTE)) {
      if (Object.hasOwn(attributes, name)) fail(`an element has ${name} twice`);
      attributes[name] = decode((double ?? single).replace(/\s/g, " "));
    }
    return attributes;
  };
  while (at < source.length) {
    PIECE.lastIndex = at;
    const piece =
      PIECE.exec(source) ??
      fail(`${source.slice(at, at + 20)}… isn't well-formed, or a document type`);
    const [, text, end, start, list = "", slash, section] = piece;
    at = PIECE.lastIndex;
    if (start !== undefined) {
      if (root !== undefined && present === undefined) fail(OUTSIDE);
      elements += 1;
      if (elements > MAX_ELEMENTS || inside.length > MAX_DEPTH) {
        throw tooLarge();
      }
      const attributes = list === "" ? NO_ATTRIBUTES : attributesOf(list);
      const element: Open = { name: start, attributes, children: NO_CHILDREN, text: "" };
      root ??= element;
      if (present?.children === NO_CHILDREN) present.children = [element];
      else present?.children.push(element);
      if (slash === "") {
        inside.push(element);
        present = element;
      }
    } else if (end !== undefined) {
      if (end !== present?.name) {
        fail(`</${end}> ends ${present === undefined ? "nothing" : `<${present.name}>`}`);
      }
      inside.pop();
      present = inside.at(-1);
    } else if (present !== undefined) {
      present.text += section ?? decode(text ?? "");
    } else if (section !== undefined || /\S/.test(text ?? "")) {
      fail(OUTSIDE);
    }
  }
  if (present !== undefined) fail(`<${present.name}> isn't closed`);
  return root ?? fail("there is no element");
}

/** The first child with this name. */
export function childOf({ children }: XmlNode, name: string): XmlNode | undefined {
  for (const child of children) if (child.name === name) return child;
  return undefined;
}

/** The text of the first child with this name. */
export const textOf = (node: XmlNode, name: string): string | undefined =>
  childOf(node, name)?.text;
