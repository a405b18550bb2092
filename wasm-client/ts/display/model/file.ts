/** A display file as a tree of widgets. Nothing is resolved: macros, colours and defaults come later. */

import type { MacroSpecs } from "./macros.js";
import { childOf, DisplayError, parseXml, textOf, type XmlNode } from "./xml.js";

/** A widget as it is written. */
export interface WidgetSource {
  /** Unique in its file. */
  readonly id: number;
  readonly type: string;
  /** Its properties as elements, those of unknown names too. */
  readonly node: XmlNode;
  /** Of groups and arrays, in drawing order. */
  readonly children: readonly WidgetSource[];
  /** The pages of tabs. */
  readonly pages: readonly (readonly WidgetSource[])[];
}

/** A display as it is written. */
export interface DisplayFile {
  /** The address that files in it are relative to; empty for a text without an address. */
  readonly address: string;
  readonly node: XmlNode;
  readonly macros: MacroSpecs;
  readonly widgets: readonly WidgetSource[];
}

/** Types of version 1.0.0 and of the converters of older displays, by today's names. */
const TYPE_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "linear-meter": "linearmeter",
    linkingContainer: "embedded",
    "linking-container": "embedded",
    text_update: "textupdate",
    text_entry: "textentry",
    multistateled: "multi_state_led",
  }),
);

/** What a file may be: a display, or the plot of a data browser, which has no widgets. */
export type FileKind = "display" | "databrowser";

/** @throws DisplayError */
export function parseDisplay(
  text: string,
  address = "",
  kind: FileKind = "display",
  parse = parseXml,
): DisplayFile {
  const node = parse(text);
  if (node.name !== kind) {
    throw new DisplayError("NOT_A_DISPLAY", `the file has a <${node.name}>, not a <${kind}>`);
  }
  const ids = { next: 0 };
  return { address, node, macros: macrosOf(node), widgets: widgetsIn(node, ids) };
}

function widgetsIn(node: XmlNode, ids: { next: number }): WidgetSource[] {
  return node.children.flatMap((child) => {
    if (child.name === "children") return widgetsIn(child, ids);
    if (child.name !== "widget") return [];
    const type = child.attributes.type ?? "";
    const id = ids.next;
    ids.next += 1;
    const tabs = childOf(child, "tabs")?.children ?? [];
    return [
      {
        id,
        type: TYPE_NAMES.get(type) ?? type,
        node: child,
        children: widgetsIn(child, ids),
        pages: tabs.map((tab) => widgetsIn(tab, ids)),
      },
    ];
  });
}

/** Whether a file is of before version 2, whose rules number severities in another order. */
export const isLegacy = ({ node }: Pick<DisplayFile, "node">): boolean =>
  parseInt(node.attributes.version ?? "", 10) < 2;

/** The macros that an element defines. */
export function macrosOf(node: XmlNode): MacroSpecs {
  return (childOf(node, "macros")?.children ?? []).map(({ name, text }) => [name, text]);
}

/** All widgets of a file, inner ones too. */
export function* allWidgets(widgets: readonly WidgetSource[]): Generator<WidgetSource> {
  for (const widget of widgets) {
    yield widget;
    yield* allWidgets(widget.children);
    for (const page of widget.pages) yield* allWidgets(page);
  }
}

/** An action of a widget as it is written. */
export interface ActionSource {
  readonly type: string;
  readonly description: string;
  readonly node: XmlNode;
}

/** The actions of a widget; `all`: one click runs all of them. */
export function actionsOf(node: XmlNode): { actions: readonly ActionSource[]; all: boolean } {
  const list = childOf(node, "actions");
  const actions = (list?.children ?? [])
    .filter(({ name }) => name === "action")
    .map((action) => ({
      type: (action.attributes.type ?? "").toLowerCase(),
      description: textOf(action, "description") ?? "",
      node: action,
    }));
  return {
    actions,
    all: list?.attributes.execute_as_one === "true" || list?.attributes.hook_all === "true",
  };
}
