/** Reads a display's XML with the browser's parser, within bounds, and without entities. */

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

/** The root element. @throws DisplayError */
export function parseXml(text: string): XmlNode {
  if (text.length > MAX_CHARACTERS) {
    throw new DisplayError("TOO_LARGE", `the file has more than ${String(MAX_CHARACTERS)} bytes`);
  }
  // A document type may define entities that grow without limit; no display has one.
  if (/<!DOCTYPE|<!ENTITY/i.test(text)) {
    throw new DisplayError("NOT_XML", "the file has a document type, which displays don't have");
  }
  const document = new DOMParser().parseFromString(text.trimStart(), "text/xml");
  const problem = document.getElementsByTagName("parsererror")[0]?.textContent;
  if (problem !== undefined) throw new DisplayError("NOT_XML", oneLine(problem));
  return convert(document.documentElement, { left: MAX_ELEMENTS }, 0);
}

const [ELEMENT, TEXT, CDATA] = [1, 3, 4];

function convert(element: Element, count: { left: number }, depth: number): XmlNode {
  count.left -= 1;
  if (count.left < 0 || depth > MAX_DEPTH) {
    throw new DisplayError(
      "TOO_LARGE",
      `the file has more than ${String(MAX_ELEMENTS)} elements or ${String(MAX_DEPTH)} levels`,
    );
  }
  // Iterators would take most of the time of a large file.
  const attributes: Record<string, string> = {};
  if (element.hasAttributes()) {
    for (const { name, value } of element.attributes) attributes[name] = value;
  }
  const children: XmlNode[] = [];
  let text = "";
  for (let node = element.firstChild; node !== null; node = node.nextSibling) {
    const { nodeType } = node;
    if (nodeType === ELEMENT) children.push(convert(node as Element, count, depth + 1));
    else if (nodeType === TEXT || nodeType === CDATA) text += node.nodeValue ?? "";
  }
  return { name: element.tagName, attributes, children, text };
}

const oneLine = (text: string): string =>
  text
    .replace(/^This page contains the following errors:/, "")
    .replace(/Below is a rendering of the page up to the first error\..*$/s, "")
    .replace(/\s+/g, " ")
    .trim();

/** The first child with this name. */
export const childOf = (node: XmlNode, name: string): XmlNode | undefined =>
  node.children.find((child) => child.name === name);

/** The text of the first child with this name. */
export const textOf = (node: XmlNode, name: string): string | undefined =>
  childOf(node, name)?.text;
