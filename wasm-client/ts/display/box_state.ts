/** The attributes of a widget's box that follow the condition of its PV. */

import type { Condition } from "../widgets/condition.js";
import type { WidgetProps } from "./widget.js";

interface Written extends Element {
  /** What was written of it: to read the page costs more than to remember. */
  pvwireWritten?: Record<string, string | undefined>;
}

/** Whether it isn't what was last written; from now on it is. At first nothing is written. */
function isNew(element: Written, what: string, value: string | undefined): boolean {
  const known = (element.pvwireWritten ??= {});
  if (known[what] === value) return false;
  known[what] = value;
  return true;
}

/** Sets or removes an attribute that nothing else writes, unless it is right. */
export function writeAttribute(element: Element, name: string, value: string | undefined): void {
  if (!isNew(element, name, value)) return;
  if (value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

/** Sets a text that nothing else writes; `false` if it is right. The element has no other content. */
export function writeText(element: Element | null | undefined, text: string): boolean {
  if (element == null || !isNew(element, "#text", text)) return false;
  const node = element.firstChild;
  // Not `instanceof`: the element may be in another window.
  if (node?.nodeType === Node.TEXT_NODE) node.nodeValue = text;
  else element.textContent = text;
  return true;
}

/** Sets a property of an element's style that nothing else writes, unless it is right. */
export function writeStyle(
  element: HTMLElement,
  name: "backgroundColor" | "color" | "width" | "height" | "left" | "bottom",
  value: string,
): void {
  if (isNew(element, name, value)) element.style[name] = value;
}

/** Sets the whole style of an element, of which nothing else is written. */
export function writeStyles(element: HTMLElement, css: string): void {
  if (isNew(element, "css", css)) element.style.cssText = css;
}

/** The part of a widget that its tooltip depends on. */
export type TitleOf = Pick<WidgetProps, "props" | "widget"> &
  Partial<Pick<WidgetProps, "name" | "problem">>;

/** The severity that a box's border shows. */
export function severityOf(
  { props }: Pick<WidgetProps, "props">,
  condition: Condition | undefined,
): Condition["severity"] {
  const severity = condition?.severity;
  const isSensitive = props.flag("border_alarm_sensitive") && props.flag("alarm_border");
  return severity !== undefined && isSensitive ? severity : undefined;
}

/** The attributes of a box for a condition. */
export function boxState(
  of: Pick<WidgetProps, "props">,
  condition: Condition | undefined,
): Readonly<Record<string, string | undefined>> {
  return {
    "data-state": condition?.state,
    "data-present": condition?.isPresent === true ? "true" : undefined,
    "data-severity": severityOf(of, condition),
    "data-stale": condition?.isStale === true ? "true" : undefined,
  };
}

/** Writes them, and the tooltip. */
export function writeBox(
  element: HTMLElement,
  of: TitleOf,
  condition: Condition | undefined,
): void {
  for (const [name, value] of Object.entries(boxState(of, condition))) {
    writeAttribute(element, name, value);
  }
  writeAttribute(element, "title", titleOf(of, condition));
}

const VALUE_MACROS = /\$\((?:pv_value|actions)\)|\$\{pv_value\}/g;

/** The tooltip: what the display says, the PV, its condition, and what isn't shown. */
export function titleOf(
  { name, problem, props, widget }: TitleOf,
  condition: Condition | undefined,
): string | undefined {
  const tooltip = props.text("tooltip").replace(VALUE_MACROS, "");
  const lines = [
    tooltip.trim(),
    tooltip.includes(name ?? "\0") ? "" : name,
    condition?.text === "No alarm" ? "" : condition?.text,
    problem,
    widget.lost === undefined ? "" : `A rule has no value of ${widget.lost}`,
    widget.missing === "" ? "" : `Not shown: ${widget.missing}`,
  ];
  const text = [...new Set(lines.filter(Boolean))].join("\n");
  return text === "" ? undefined : text;
}
