/**
 * Scripts as far as they are known steps: those of buttons write PVs, and open or close displays; those
 * of other widgets do what a rule does. Nothing is evaluated: a script with any other line isn't
 * available.
 */

import type { XmlNode } from "./xml.js";
import { childOf, textOf } from "./xml.js";

/** One step of a script. An `action` is as a display writes it. */
export type ScriptStep =
  | { readonly kind: "action"; readonly type: "write_pv" | "open_display"; readonly node: XmlNode }
  | { readonly kind: "close" };

/** A text of fixed parts and of the widget's properties; only numbers stay numbers. */
type Value = string | number;

/** Modules whose names need no meaning here. */
const IMPORT = /^from\s+org\.csstudio\.[\w.]+\s+import\s+[\w, ]+$/;
const ASSIGNMENT = /^([A-Za-z_]\w*)\s*=(?!=)\s*(.+)$/;
const CALL = /^(PVUtil\.writePV|ScriptUtil\.openDisplay|ScriptUtil\.closeDisplay)\s*\((.*)\)$/;
const TERM =
  /\s*(?:"([^"\\]*)"|'([^'\\]*)'|([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|widget\.getPropertyValue\(\s*["'](\w+)["']\s*\)|widget\.prop(PVName)\(\)\.getValue\(\)|([A-Za-z_]\w*))\s*/y;

/** The steps of an action's script; `undefined` if it isn't one of known steps. */
export function stepsOf(action: XmlNode): readonly ScriptStep[] | undefined {
  const script = childOf(action, "script");
  if (script?.attributes.file !== "EmbeddedPy") return undefined;
  try {
    return new Script().read(textOf(script, "text") ?? script.text);
  } catch {
    return undefined;
  }
}

class Script {
  #values = new Map<string, Value>([["None", ""]]);
  #steps: ScriptStep[] = [];

  read(text: string): readonly ScriptStep[] {
    for (const line of text.split(/\r?\n/)) {
      const plain = withoutComment(line).trimEnd();
      if (plain === "" || IMPORT.test(plain)) continue;
      const [, name, value] = ASSIGNMENT.exec(plain) ?? [];
      if (name !== undefined && value !== undefined) this.#assign(name, value);
      else this.#call(plain);
    }
    if (this.#steps.length === 0) throw new Error("a script without a step");
    return this.#steps;
  }

  #assign(name: string, text: string): void {
    const [value, more] = this.#list(text);
    if (value === undefined || more !== undefined) throw new Error(`${name} has no value`);
    this.#values.set(name, value);
  }

  #call(line: string): void {
    const [, called, inside = ""] = CALL.exec(line) ?? [];
    if (called === "ScriptUtil.closeDisplay" && inside.trim() === "widget") {
      this.#steps.push({ kind: "close" });
    } else if (called === "ScriptUtil.openDisplay") {
      const [, rest] = /^\s*widget\s*,(.*)$/.exec(inside) ?? [];
      const [file, target, macros] = this.#list(rest ?? "");
      // Macros would be a list of Python.
      if (typeof file !== "string" || typeof target !== "string" || macros !== "") fail(line);
      this.#step("open_display", { file, target: target.toLowerCase() });
    } else if (called === "PVUtil.writePV") {
      const [name, value, timeout = 0] = this.#list(inside);
      if (typeof name !== "string" || value === undefined || typeof timeout !== "number")
        fail(line);
      this.#step("write_pv", { pv_name: name, value });
    } else {
      fail(line);
    }
  }

  #step(type: "write_pv" | "open_display", values: Readonly<Record<string, Value>>): void {
    const children = Object.entries(values).map(([name, value]) => element(name, value));
    const node = { name: "action", attributes: { type }, children, text: "" };
    this.#steps.push({ kind: "action", type, node });
  }

  /** Values between commas, each of terms between plus signs. */
  #list(text: string): Value[] {
    const values: Value[] = [];
    let at = 0;
    let sum: Value | undefined;
    while (at < text.length) {
      TERM.lastIndex = at;
      const found = TERM.exec(text);
      if (found === null) fail(text);
      const term = this.#term(found);
      if (sum !== undefined && (typeof sum !== "string" || typeof term !== "string")) fail(text);
      sum = typeof sum === "string" && typeof term === "string" ? sum + term : term;
      at = TERM.lastIndex;
      const sign = text[at];
      at += 1;
      if (sign === "+") {
        if (text.slice(at).trim() === "") fail(text);
      } else if (sign === undefined || sign === ",") {
        values.push(sum);
        sum = undefined;
        if (sign === "," && text.slice(at).trim() === "") fail(text);
      } else fail(text);
    }
    return values;
  }

  #term([, double, single, number, property, pvName, name]: RegExpExecArray): Value {
    if (number !== undefined) return Number(number);
    if (property !== undefined || pvName !== undefined) return `$(${property ?? "pv_name"})`;
    const value = name === undefined ? (double ?? single) : this.#values.get(name);
    return value ?? fail(name ?? "");
  }
}

const SETTER =
  /^widget\.setPropertyValue\(\s*["']([\w.[\]]+)["']\s*,\s*PVUtil\.get(String|Double|Int|Long)\(\s*pvs\[(\d+)\]\s*\)\s*\)$/;

/** As the converter of EDM's displays writes colours that follow an alarm. */
const ALARM_COLOUR =
  /^(\w+)\s*=\s*PVUtil\.getSeverity\(pvs\[(\d+)\]\)\n(\w+)\s*=\s*\(([\w\s,'"]*)\)\[\1\]\nwidget\.setPropertyValue\(["'](\w+_color)["'],\s*WidgetColorService\.getColor\(\3\)\)$/;

/** Has no effect on a page. */
const PRINT = /^print[\s(]\s*(?:"[^"]*"|'[^']*')\s*\)?$/;

const VARIABLES: Readonly<Record<string, string>> = { String: "pvStr", Double: "pv" };

/** The scripts of a widget that are rules, as rules, and the others. */
export function scriptRules(widget: XmlNode): {
  readonly rules: readonly XmlNode[];
  readonly unknown: readonly XmlNode[];
} {
  const rules: XmlNode[] = [];
  const unknown: XmlNode[] = [];
  for (const script of scriptsOf(widget)) {
    const code = embeddedCode(script);
    const rule = code === undefined ? undefined : ruleOf(code, script);
    if (rule !== undefined) rules.push(rule);
    else unknown.push(script);
  }
  return { rules, unknown };
}

/** The scripts of a widget or a display that have an effect. */
export const scriptsOf = (node: XmlNode): readonly XmlNode[] =>
  (childOf(node, "scripts")?.children ?? []).filter((script) => embeddedCode(script) !== "");

const embeddedCode = (script: XmlNode): string | undefined =>
  script.attributes.file === "EmbeddedPy" ? codeOf(textOf(script, "text") ?? "") : undefined;

/** The lines that have an effect. */
const codeOf = (text: string): string =>
  text
    .split(/\r?\n/)
    .map((line) => withoutComment(line).trimEnd())
    .filter((line) => line !== "" && !IMPORT.test(line) && !PRINT.test(line))
    .join("\n");

function ruleOf(code: string, script: XmlNode): XmlNode | undefined {
  const pvs = script.children.filter(({ name }) => name === "pv_name");
  const rule = (
    property: string,
    isExpression: boolean,
    branches: readonly XmlNode[],
  ): XmlNode => ({
    name: "rule",
    attributes: { name: "script", prop_id: property, out_exp: String(isExpression) },
    children: [...branches, ...pvs],
    text: "",
  });
  const branch = (condition: string, value: XmlNode): XmlNode => ({
    name: "exp",
    attributes: { bool_exp: condition },
    children: [value],
    text: "",
  });
  const [, property, kind = "", at = ""] = SETTER.exec(code) ?? [];
  if (property !== undefined) {
    const variable = `${VARIABLES[kind] ?? "pvInt"}${at}`;
    return rule(property, true, [branch("true", element("expression", variable))]);
  }
  const [, , severity = "", , names = "", colour] = ALARM_COLOUR.exec(code) ?? [];
  if (colour === undefined) return undefined;
  const branches = [...names.matchAll(/["'](\w+)["']/g)].map(([, name = ""], index) => {
    const named = { name: "color", attributes: { name }, children: [], text: "" };
    const value = { ...element("value", ""), children: [named] };
    return branch(`pvSev${severity} == ${String(index)}`, value);
  });
  return rule(colour, false, branches);
}

function element(name: string, value: Value): XmlNode {
  return { name, attributes: { type: typeof value }, children: [], text: String(value) };
}

function fail(what: string): never {
  throw new Error(`not a known step: ${what}`);
}

/** The line without what follows a # outside a text. */
function withoutComment(line: string): string {
  const [, code = ""] = /^((?:[^"'#]|"[^"]*"|'[^']*')*)(?:#.*)?$/.exec(line) ?? [undefined, line];
  return code;
}
