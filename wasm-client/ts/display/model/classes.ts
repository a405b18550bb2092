/** Widget classes: properties that a facility sets in one file for all widgets of a class. */

import { isLegacy, macrosOf, type DisplayFile, type WidgetSource } from "./file.js";
import { textOf, type XmlNode } from "./xml.js";

/** The properties that classes set, by the type of the widget and the name of the class. */
export type WidgetClasses = ReadonlyMap<string, readonly XmlNode[]>;

/** The class of a widget that names none. */
const DEFAULT_CLASS = "DEFAULT";

const keyOf = (type: string, name: string): string => `${type} ${name}`;

/** The class that a widget's element names; empty: the widget wants none. */
export const classNameOf = (node: XmlNode): string =>
  textOf(node, "class")?.trim() ?? DEFAULT_CLASS;

/** Whether a widget names a class, and not the one that all widgets have. */
export const hasOwnClass = (node: XmlNode): boolean =>
  !["", DEFAULT_CLASS].includes(classNameOf(node));

/** Whether a widget's class sets this property. */
export const isOfClass = ({ attributes }: XmlNode): boolean => attributes.use_class === "true";

/**
 * The classes of a `.bcf` file: each of its widgets is one, whose name is the class's. It sets the
 * properties that are marked.
 */
export function classesOf(file: DisplayFile): WidgetClasses {
  const classes = new Map<string, readonly XmlNode[]>();
  const define = (type: string, name: string, node: XmlNode): void => {
    if (name === "") return;
    const own = node.children.filter(isOfClass).map(unmarked);
    const key = keyOf(type, name);
    classes.set(key, replaced(classes.get(key) ?? [], own));
  };
  define("display", DEFAULT_CLASS, file.node);
  for (const { node, type } of file.widgets) define(type, textOf(node, "name")?.trim() ?? "", node);
  return classes;
}

/** The file with what the classes of its widgets set. Files of before version 2 have no classes. */
export function withClasses(file: DisplayFile, classes: WidgetClasses): DisplayFile {
  if (classes.size === 0 || isLegacy(file)) return file;
  const node = classed("display", file.node, classes);
  const apply = (source: WidgetSource): WidgetSource => ({
    ...source,
    node: classed(source.type, source.node, classes),
    children: source.children.map(apply),
    pages: source.pages.map((page) => page.map(apply)),
  });
  return { ...file, node, macros: macrosOf(node), widgets: file.widgets.map(apply) };
}

function classed(type: string, node: XmlNode, classes: WidgetClasses): XmlNode {
  const own = classes.get(keyOf(type, classNameOf(node)));
  if (own === undefined) return node;
  // Without the name of its class, which has had its effect. What the class doesn't set is the widget's.
  const others = node.children.filter(({ name }) => name !== "class").map(unmarked);
  return { ...node, children: replaced(others, own) };
}

const unmarked = (node: XmlNode): XmlNode =>
  isOfClass(node) ? { ...node, attributes: { ...node.attributes, use_class: "false" } } : node;

/** The elements, with others in place of those of the same name. */
function replaced(nodes: readonly XmlNode[], by: readonly XmlNode[]): readonly XmlNode[] {
  const names = new Set(by.map(({ name }) => name));
  return [...nodes.filter(({ name }) => !names.has(name)), ...by];
}
