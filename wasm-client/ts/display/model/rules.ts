/** The rules of a widget, compiled once: which values they set for which values of their PVs. */

import { compile, isTrue, type Compiled, type Variables } from "./expression.js";
import { expand, type Lookup } from "./macros.js";
import { clientName } from "./names.js";
import type { Overrides } from "./props.js";
import { scriptRules } from "./script.js";
import { childOf, type XmlNode } from "./xml.js";

/** What rules see of a PV; `undefined` while it has no current value. */
export interface RulePv {
  /** The number, an enum's index, or an array's first element; NaN for a text. */
  readonly number: number;
  /** All digits of an integer. */
  readonly integer: bigint | undefined;
  readonly text: string;
  /** 0 to 3: none, minor, major, invalid; 4: not known. */
  readonly severity: number;
}

/** One `if` of a rule: when its condition holds, the property gets the value. */
interface Branch {
  readonly condition: Compiled;
  /** An element of the file, or an expression. */
  readonly value: XmlNode | Compiled;
}

/** A rule that can be evaluated. */
export interface Rule {
  readonly property: string;
  readonly branches: readonly Branch[];
  /** Index of each of its PVs in `Rules.names`. */
  readonly pvs: readonly number[];
}

/** All rules of a widget. */
export interface Rules {
  readonly rules: readonly Rule[];
  /** The PVs of all rules, each once. */
  readonly names: readonly string[];
  /** What keeps rules from being evaluated. */
  readonly problems: readonly string[];
}

const NONE: Rules = { rules: [], names: [], problems: [] };

/** The rules of a widget's element, and its scripts that are rules. `isLegacy`: its file has another order of severities. */
export function rulesOf(node: XmlNode, lookup: Lookup, isLegacy = false): Rules {
  const own = childOf(node, "rules")?.children ?? [];
  const ofScripts = scriptRules(node).rules;
  if (own.length + ofScripts.length === 0) return NONE;
  const names: string[] = [];
  const problems: string[] = [];
  const indexOf = (name: string): number => {
    if (!names.includes(name)) names.push(name);
    return names.indexOf(name);
  };
  const rules = [...own, ...ofScripts].flatMap((rule) => {
    const property = propertyOf(rule.attributes.prop_id ?? "");
    // Scripts have the same numbers of severities in files of every version.
    const isOlder = isLegacy && !ofScripts.includes(rule);
    try {
      const pvs = rule.children
        .filter(({ name }) => name === "pv_name" || name === "pv")
        .map(({ text }) => {
          const named = clientName(expand(text, lookup));
          if (named?.name === undefined) throw new Error(named?.problem ?? "a PV has no name");
          return indexOf(named.name);
        });
      return [{ property, branches: branchesOf(rule, lookup, isOlder), pvs }];
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      problems.push(`${rule.attributes.name ?? ""} (${property}): ${why}`);
      return [];
    }
  });
  return { rules, names, problems };
}

/** What a rule sets, by today's name: older files number the states of a lamp, as Phoebus knows. */
const propertyOf = (id: string): string =>
  id.replace(/^state_(color|label|value)_(\d+)$/, "states[$2].$1");

function branchesOf(rule: XmlNode, lookup: Lookup, isLegacy: boolean): Branch[] {
  const isExpression = rule.attributes.out_exp === "true";
  return rule.children
    .filter(({ name }) => name === "exp")
    .map((branch) => {
      const written = branch.attributes.bool_exp ?? "";
      // As Phoebus reads such files: only in conditions.
      const current = isLegacy ? written.replace(/pvSev(?=\d)/g, "pvLegacySev") : written;
      const condition = compile(expand(current, lookup));
      const expression = childOf(branch, "expression");
      const value = childOf(branch, "value") ?? expression ?? branch;
      const isCompiled = isExpression || value === expression;
      return { condition, value: isCompiled ? compile(expand(value.text, lookup)) : value };
    });
}

/**
 * What the rules set now. Without a value of one of its PVs, or with values that its expressions can't
 * work on, a rule sets nothing: the property is what the file says. `failed` gets the latter.
 */
export function evaluate(
  { rules }: Rules,
  pvs: readonly (RulePv | undefined)[],
  property: (name: string) => string,
  failed: (problem: string) => void = () => undefined,
): Overrides {
  const set = new Map<string, XmlNode | string | number | boolean>();
  for (const rule of rules) {
    try {
      const value = valueNow(rule, pvs, property);
      if (value !== undefined) set.set(rule.property, value);
    } catch (error) {
      failed(`${rule.property}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return set;
}

function valueNow(
  rule: Rule,
  pvs: readonly (RulePv | undefined)[],
  property: (name: string) => string,
): XmlNode | string | number | boolean | undefined {
  const own = rule.pvs.map((at) => pvs[at]);
  if (own.includes(undefined)) return undefined;
  const variables: Variables = (name) => {
    if (name.startsWith("widget.")) return property(name.slice(7));
    const [, kind, at] = /^pv(Int|Str|Sev|LegacySev)?(\d+)$/.exec(name) ?? [];
    const pv = own[Number(at)];
    if (pv === undefined) throw new Error(`${name} isn't one of the rule's PVs`);
    switch (kind) {
      case "Int":
        if (pv.integer === undefined && !Number.isFinite(pv.number)) {
          throw new Error(`${name} has no integer`);
        }
        return pv.integer ?? BigInt(Math.trunc(pv.number));
      case "Str":
        return pv.text;
      case "Sev":
        return BigInt(pv.severity);
      case "LegacySev":
        return [0n, 2n, 1n, -1n][pv.severity] ?? -1n;
      default:
        return pv.number;
    }
  };
  for (const { condition, value } of rule.branches) {
    if (!isTrue(condition(variables))) continue;
    if (typeof value !== "function") return value;
    const result = value(variables);
    return typeof result === "bigint" ? Number(result) : result;
  }
  return undefined;
}
