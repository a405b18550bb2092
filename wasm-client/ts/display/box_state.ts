/** The attributes of a widget's box that follow the condition of its PV. */

import type { Condition } from "../widgets/condition.js";
import type { WidgetProps } from "./widget.js";

/** Sets an attribute, unless it is right. */
export function writeAttribute(element: Element, name: string, value: string | undefined): void {
  if (value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

/** Sets a text, unless it is right. The element has no other content. */
export function writeText(element: Element | null | undefined, text: string): void {
  if (element == null) return;
  const node = element.firstChild;
  // Not `instanceof`: the element may be in another window.
  if (node?.nodeType === Node.TEXT_NODE) {
    if (node.nodeValue !== text) node.nodeValue = text;
  } else {
    element.textContent = text;
  }
}

/** Sets a property of an element's style, unless it is right as it was last set. */
export function writeStyle(
  element: HTMLElement,
  name: "backgroundColor" | "color" | "width" | "height" | "left" | "bottom",
  value: string,
): void {
  const known = styles.get(element) ?? {};
  if (known[name] === value) return;
  styles.set(element, { ...known, [name]: value });
  element.style[name] = value;
}

/** What was set: a style that is read is written in another way. */
const styles = new WeakMap<Element, Readonly<Record<string, string>>>();

/** The part of a widget that its tooltip depends on. */
export type TitleOf = Pick<WidgetProps, "props" | "widget"> &
  Partial<Pick<WidgetProps, "name" | "problem">>;

/** The attributes of a box for a condition. */
export function boxState(
  { props }: Pick<WidgetProps, "props">,
  condition: Condition | undefined,
): Readonly<Record<string, string | undefined>> {
  const isSensitive =
    condition?.severity !== undefined &&
    props.flag("border_alarm_sensitive") &&
    props.flag("alarm_border");
  return {
    "data-state": condition?.state,
    "data-present": condition?.isPresent === true ? "true" : undefined,
    "data-severity": isSensitive ? condition.severity : undefined,
    "data-stale": condition?.isStale === true ? "true" : undefined,
  };
}

const written = new WeakMap<
  Element,
  { readonly of: TitleOf; readonly condition: Condition | undefined }
>();

/** Writes them, and the tooltip. */
export function writeBox(
  element: HTMLElement,
  of: TitleOf,
  condition: Condition | undefined,
): void {
  const before = written.get(element);
  if (before?.of === of && areEqual(before.condition, condition)) return;
  written.set(element, { of, condition });
  for (const [name, value] of Object.entries(boxState(of, condition))) {
    writeAttribute(element, name, value);
  }
  writeAttribute(element, "title", titleOf(of, condition));
}

function areEqual(one: Condition | undefined, other: Condition | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return (
    one.text === other.text &&
    one.state === other.state &&
    one.severity === other.severity &&
    one.isPresent === other.isPresent &&
    one.isStale === other.isStale
  );
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
