/** What of a display file isn't shown, or not as it is written. Nothing is left out silently. */

import { classNameOf, hasOwnClass, isOfClass, withClasses } from "./classes.js";
import { defaultsOf, WITHOUT_EFFECT } from "./defaults.js";
import {
  actionsOf,
  allWidgets,
  parseDisplay,
  type DisplayFile,
  type WidgetSource,
} from "./file.js";
import { DEFAULT_PALETTE, type Palette } from "./palette.js";
import { rulesOf } from "./rules.js";
import { scriptRules, scriptsOf, stepsOf } from "./script.js";
import { childOf, parseXml, textOf, type XmlNode } from "./xml.js";

/** Something that isn't shown or can't be done, with how often. */
export interface DisplayNote {
  /** What it is. `file` and `pv` turn up while the display is shown. */
  readonly kind: "type" | "rule" | "script" | "action" | "property" | "class" | "file" | "pv";
  /** As text for operators. */
  readonly text: string;
  /** How often. */
  readonly count: number;
}

/** Actions that a page can run. */
const KNOWN_ACTIONS: ReadonlySet<string> = new Set([
  "open_display",
  "write_pv",
  "open_webpage",
  "open_file",
]);

/** Properties that rules can set. */
const RULED = /^(?:[a-z_A-Z]+|(?:traces|y_axes|states)\[\d+\]\.[a-z_]+|x_axis\.[a-z_]+)$/;

/** Kinds that only change how a widget that is shown looks. */
const LOOKS: ReadonlySet<DisplayNote["kind"]> = new Set(["property", "class"]);

/** Whether a display is shown with all its types, rules, scripts and actions. */
export const isWhole = (notes: readonly DisplayNote[]): boolean =>
  notes.every(({ kind }) => LOOKS.has(kind));

type Note = Omit<DisplayNote, "count">;

const known = new WeakMap<WidgetSource, readonly Note[]>();

/** The notes of one widget. */
export function notesOf(widget: WidgetSource): readonly Note[] {
  let notes = known.get(widget);
  if (notes === undefined) known.set(widget, (notes = findNotes(widget)));
  return notes;
}

function findNotes(widget: WidgetSource): Note[] {
  const { node, type } = widget;
  const notes: Note[] = [];
  const note = (kind: DisplayNote["kind"], text: string): void => {
    notes.push({ kind, text });
  };
  const defaults = defaultsOf(type);
  if (defaults === undefined) note("type", `widgets of type ${type || "(none)"}`);
  if (type === "table" && !["false", "0"].includes(textOf(node, "editable")?.trim() ?? "")) {
    note("property", "a table is shown, but can't be edited");
  }
  if (type === "fileselector") {
    note("property", "the path of a file is typed: a page sees no files of the control system");
  }
  if (type === "image") noteImage(node, note);
  if (type === "xyplot" && hasErrorBars(node)) note("property", "a plot without its error bars");
  if (type === "databrowser") {
    note("property", "a data browser shows values since it was opened, not those of an archive");
  }
  // Macros are replaced where the widget is shown; here each is something that a name or number may be.
  const { problems, rules } = rulesOf(node, () => "1");
  for (const problem of problems) note("rule", `a rule can't be evaluated: ${problem}`);
  for (const { property } of rules) {
    const isKnown = defaults !== undefined && Object.hasOwn(defaults, property);
    const isInner = property.includes("[") || property.includes(".");
    // Phoebus too leaves alone what a widget without input doesn't have.
    if (property === "enabled" && !isKnown) continue;
    if (defaults !== undefined && !(isInner ? RULED.test(property) : isKnown)) {
      note("rule", `rules that set ${property} of ${type}`);
    }
  }
  for (const script of scriptRules(node).unknown) {
    const file = script.attributes.file ?? script.attributes.path ?? "";
    note("script", `scripts${file === "" ? "" : `: ${file}`} are not run`);
  }
  for (const { node: action, type: kind } of actionsOf(node).actions) {
    const isKnown =
      KNOWN_ACTIONS.has(kind) || (kind === "execute" && stepsOf(action) !== undefined);
    if (!isKnown) note("action", `actions ${kind} are not available`);
  }
  // With its class, a widget is inspected without the name of the class.
  const isClassless = hasOwnClass(node);
  if (isClassless) note("class", `the class ${classNameOf(node)} of ${type}: not defined`);
  for (const child of node.children) {
    const { name } = child;
    if (isOfClass(child) && !isClassless) note("class", `${type}.${name} of a widget class`);
    if (defaults === undefined || Object.hasOwn(defaults, name)) continue;
    if (name === "class" || WITHOUT_EFFECT.has(name)) continue;
    note("property", `${type}.${name}`);
  }
  return notes;
}

function noteImage(node: XmlNode, note: (kind: DisplayNote["kind"], text: string) => void): void {
  const mode = textOf(node, "color_mode")?.trim() ?? "";
  if (/bayer|yuv/i.test(mode)) note("property", `an image of the colour mode ${mode}`);
  const axes = ["x_axis", "y_axis"].map((name) => childOf(node, name));
  if (!axes.every((axis) => axis && textOf(axis, "visible")?.trim() === "false")) {
    note("property", "an image is shown without its axes");
  }
}

/** Types of traces with error bars: by number, or as they are named. */
const ERROR_BARS = /^[34]$|ERRORBARS/;

const hasErrorBars = (plot: XmlNode): boolean =>
  (childOf(plot, "traces")?.children ?? []).some(
    (trace) =>
      ERROR_BARS.test(textOf(trace, "trace_type")?.trim() ?? "") &&
      (textOf(trace, "err_pv")?.trim() ?? "") !== "",
  );

/** The notes of a file, equal ones counted, the most frequent first. */
export function inspect(file: DisplayFile): DisplayNote[] {
  const all = [...allWidgets(file.widgets)].flatMap(notesOf);
  for (const script of scriptsOf(file.node)) {
    all.push({ kind: "script", text: `scripts: ${script.attributes.file ?? ""} are not run` });
  }
  return counted(all);
}

/** The reader of a file's text: that of displays of BOY is loaded with the first of them. */
export async function parserOf(text: string): Promise<(text: string) => XmlNode> {
  if (!text.includes("typeId")) return parseXml;
  return (await import("./opi.js")).opiReader(parseXml, defaultsOf);
}

/**
 * What of a display isn't shown or can't be done, by the text of its file, `.bob` or `.opi`. Files and PVs
 * that can't be read turn up only while it is shown.
 * @param palette with the classes of widgets
 * @throws DisplayError when it isn't a display.
 */
export async function inspectDisplay(
  text: string,
  { classes }: Palette = DEFAULT_PALETTE,
): Promise<readonly DisplayNote[]> {
  const file = parseDisplay(text, "", "display", await parserOf(text));
  return inspect(withClasses(file, classes ?? new Map()));
}

/** Equal notes counted. */
export function counted(notes: readonly Note[]): DisplayNote[] {
  const counts = new Map<string, DisplayNote>();
  for (const { kind, text } of notes) {
    const key = `${kind} ${text}`;
    counts.set(key, { kind, text, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()].sort((one, other) => other.count - one.count);
}
