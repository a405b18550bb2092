/** A data browser's file (`.plt`) as the properties of a strip chart. */

import { childOf, textOf, type XmlNode } from "../model/xml.js";

type Inside = string | readonly XmlNode[];

const element = (name: string, inside: Inside, attributes: XmlNode["attributes"] = {}): XmlNode =>
  typeof inside === "string"
    ? { name, attributes, children: [], text: inside }
    : { name, attributes, children: inside, text: "" };

/** Copies elements under other names; those that the file leaves out are left out. */
const renamed = (node: XmlNode, names: Readonly<Record<string, string>>): XmlNode[] =>
  Object.entries(names).flatMap(([from, to]) => {
    const text = textOf(node, from);
    return text === undefined ? [] : [element(to, text)];
  });

function colourOf(node: XmlNode, from: string, to: string): XmlNode[] {
  const colour = childOf(node, from);
  if (colour === undefined) return [];
  const part = (name: string): string => (textOf(colour, name) ?? "0").trim();
  const parts = { red: part("red"), green: part("green"), blue: part("blue") };
  return [element(to, [element("color", "", parts)])];
}

/** Values are steps unless the file connects them. */
function traceType(written: string): string {
  if (written.includes("DIRECT")) return "LINE";
  if (written.includes("BARS")) return "BARS";
  return /POINTS|NONE/.test(written) ? "NONE" : "STEP";
}

function traceOf(pv: XmlNode): XmlNode {
  const type = textOf(pv, "trace_type")?.toUpperCase() ?? "";
  const isPoints = type.includes("POINTS");
  const same = ["visible", "axis", "line_style", "point_size", ...(isPoints ? [] : ["point_type"])];
  return element("trace", [
    ...renamed(pv, { display_name: "name", name: "y_pv", linewidth: "line_width" }),
    ...renamed(pv, Object.fromEntries(same.map((name) => [name, name]))),
    ...colourOf(pv, "color", "color"),
    element("trace_type", traceType(type)),
    ...(isPoints ? [element("point_type", "SQUARES")] : []),
  ]);
}

function axisOf(axis: XmlNode): XmlNode {
  const isNamed = textOf(axis, "use_axis_name")?.trim() !== "false";
  return element("y_axis", [
    ...renamed(axis, { min: "minimum", max: "maximum", right: "on_right", grid: "show_grid" }),
    ...renamed(axis, { visible: "visible", autoscale: "autoscale", log_scale: "log_scale" }),
    ...(isNamed ? renamed(axis, { name: "title" }) : []),
    ...colourOf(axis, "color", "color"),
  ]);
}

const childrenOf = (node: XmlNode, list: string, name: string): XmlNode[] =>
  (childOf(node, list)?.children ?? []).filter((child) => child.name === name);

/** The strip chart of a file, at the place of its widget. */
export function stripOf(plot: XmlNode, place: Readonly<Record<string, string>>): XmlNode {
  const own = Object.entries(place).map(([name, text]) => element(name, text));
  const names = { title: "title", show_legend: "show_legend", grid: "show_grid", start: "start" };
  return element("widget", [
    ...own,
    ...renamed(plot, names),
    ...colourOf(plot, "foreground", "foreground_color"),
    ...colourOf(plot, "background", "background_color"),
    element("y_axes", childrenOf(plot, "axes", "axis").map(axisOf)),
    element("traces", childrenOf(plot, "pvlist", "pv").map(traceOf)),
  ]);
}
