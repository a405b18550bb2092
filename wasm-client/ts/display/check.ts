/** Says of the files of a folder which displays would be shown whole, what not and why. No browser is needed. */

import { classesOf, withClasses, type WidgetClasses } from "./model/classes.js";
import { actionsOf, allWidgets, parseDisplay, type WidgetSource } from "./model/file.js";
import { isDisplay, nearestFile, PALETTE_FILES, presentFormat } from "./model/address.js";
import { defaultsOf } from "./model/defaults.js";
import { counted, inspect, isWhole, type DisplayNote } from "./model/inspect.js";
import { clientName } from "./model/names.js";
import { opiReader } from "./model/opi.js";
import { childOf, parseXml, textOf } from "./model/xml.js";

/** What was found in one file. */
export interface CheckedDisplay {
  /** Relative to the folder, with slashes. */
  readonly path: string;
  /** Why it can't be read; absent for a display. */
  readonly error?: string;
  /** Number of widgets, inner ones too. */
  readonly widgets: number;
  /** How many of them are of a known type. */
  readonly known: number;
  readonly notes: readonly DisplayNote[];
  /** Types, rules, scripts, actions, files and PVs are all shown. */
  readonly isWhole: boolean;
}

type Note = Omit<DisplayNote, "count">;

/** The classes of widgets that displays have, or why they can't be read. */
interface FoundClasses {
  readonly classes: WidgetClasses;
  readonly problem?: string;
}

/**
 * Checks all displays of a folder. `files` are the paths of its files, relative and with slashes;
 * `read` gives the text of one of them.
 */
export function checkFolder(
  files: readonly string[],
  read: (path: string) => string,
): CheckedDisplay[] {
  const all = new Set(files);
  const ofClasses = files.filter((path) => PALETTE_FILES[2].test(path));
  const known = new Map<string, FoundClasses>();
  const classesFor = (display: string): FoundClasses => {
    const path = nearestFile(ofClasses, display, PALETTE_FILES[2]) ?? "";
    const found = known.get(path) ?? readClasses(path, read);
    known.set(path, found);
    return found;
  };
  return files
    .filter((path) => isDisplay(path, all))
    .map((path) => {
      let text: string;
      try {
        text = read(path);
      } catch (error) {
        return unreadable(path, error);
      }
      return checkDisplay(path, text, (name) => all.has(name), classesFor(path));
    });
}

function readClasses(path: string, read: (path: string) => string): FoundClasses {
  if (path === "") return NO_CLASSES;
  try {
    return { classes: classesOf(parseDisplay(read(path), path)) };
  } catch (error) {
    return { ...NO_CLASSES, problem: `${path}: ${reasonOf(error)}` };
  }
}

const NO_CLASSES: FoundClasses = { classes: new Map() };

const parsePresent = opiReader(parseXml, defaultsOf);

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Checks the text of one file. `exists` says whether the folder has a file. */
export function checkDisplay(
  path: string,
  text: string,
  exists: (path: string) => boolean,
  { classes, problem }: FoundClasses = NO_CLASSES,
): CheckedDisplay {
  try {
    const file = withClasses(parseDisplay(text, path, "display", parsePresent), classes);
    const widgets = [...allWidgets(file.widgets)];
    const found = widgets.flatMap((widget) => [...filesOf(widget, path, exists), ...pvsOf(widget)]);
    if (problem !== undefined) found.push({ kind: "file", text: problem });
    const notes = [...inspect(file), ...counted(found)];
    const known = widgets.filter(({ type }) => defaultsOf(type) !== undefined).length;
    return { path, widgets: widgets.length, known, notes, isWhole: isWhole(notes) };
  } catch (error) {
    return unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): CheckedDisplay {
  return { path, error: reasonOf(error), widgets: 0, known: 0, notes: [], isWhole: false };
}

/** Files that a widget names and that aren't in the folder. */
function filesOf(widget: WidgetSource, from: string, exists: (path: string) => boolean): Note[] {
  const { node } = widget;
  const tabs = childOf(node, "tabs")?.children ?? [];
  const holders = [node, ...tabs, ...actionsOf(node).actions.map((action) => action.node)];
  return holders.flatMap((holder): Note[] => {
    const file = textOf(holder, "file")?.trim() ?? "";
    // With a macro it is known only while the display is shown.
    if (file === "" || /\$[({]/.test(file)) return [];
    const problem = fileProblem(file, from, exists);
    return problem === undefined ? [] : [{ kind: "file", text: `${file}: ${problem}` }];
  });
}

function fileProblem(
  file: string,
  from: string,
  exists: (path: string) => boolean,
): string | undefined {
  if (/^https?:/i.test(file)) return "on another host";
  if (/^(?:[a-z]{2,}:|\/)/i.test(file)) return "this kind of address isn't available";
  const parts = from.split("/").slice(0, -1);
  for (const part of file.replaceAll("\\", "/").split("/")) {
    if (part === "..") {
      if (parts.pop() === undefined) return "outside the folder of displays";
    } else if (part !== "." && part !== "") {
      parts.push(part);
    }
  }
  const path = parts.join("/");
  return exists(presentFormat(path)) || exists(path) ? undefined : "there is no such file";
}

/** PVs of kinds that aren't available. */
function pvsOf({ node }: WidgetSource): Note[] {
  const name = textOf(node, "pv_name") ?? "";
  if (/\$[({]/.test(name)) return [];
  const problem = clientName(name)?.problem;
  return problem === undefined ? [] : [{ kind: "pv", text: problem }];
}

const number = (of: number): string => of.toLocaleString("en");

const share = (part: number, whole: number): string =>
  whole === 0 ? "" : ` (${((100 * part) / whole).toFixed(1)} %)`;

/** The result as text for people. */
export function checkReport(displays: readonly CheckedDisplay[]): string {
  const whole = displays.filter((each) => each.isWhole).length;
  const broken = displays.filter(({ error }) => error !== undefined);
  const parts = displays.filter((each) => !each.isWhole && each.error === undefined);
  const sum = (of: "widgets" | "known"): number =>
    displays.reduce((total, each) => total + each[of], 0);
  const lines = [
    `${number(displays.length)} displays: ${number(whole)} ${whole === 1 ? "is" : "are"} shown whole${share(whole, displays.length)}, ` +
      `${number(parts.length)} in part, ${number(broken.length)} can't be read`,
    `${number(sum("widgets"))} widgets: ${number(sum("known"))} of known types${share(sum("known"), sum("widgets"))}`,
  ];
  if (broken.length > 0) {
    lines.push("", "Can't be read:");
    for (const { error = "", path } of broken) lines.push(`  ${path}: ${error}`);
  }
  if (parts.length > 0) {
    lines.push("", "Not shown (how often, in how many displays):", ...frequent(parts, hides));
    lines.push("", "Displays shown in part:");
    for (const { notes, path } of parts) lines.push(`  ${path}: ${kindsOf(notes)}`);
  }
  const looks = frequent(displays, (note) => !hides(note));
  if (looks.length > 0)
    lines.push("", "Shown with other looks (how often, in how many displays):", ...looks);
  return `${lines.join("\n")}\n`;
}

const hides = (note: DisplayNote): boolean => !isWhole([note]);

function frequent(
  displays: readonly CheckedDisplay[],
  isCounted: (note: DisplayNote) => boolean,
): string[] {
  const sums = new Map<string, { text: string; count: number; files: number }>();
  for (const { kind, text, count } of displays.flatMap(({ notes }) => notes.filter(isCounted))) {
    const before = sums.get(`${kind} ${text}`) ?? { text: `${kind}: ${text}`, count: 0, files: 0 };
    sums.set(`${kind} ${text}`, {
      text: before.text,
      count: before.count + count,
      files: before.files + 1,
    });
  }
  return [...sums.values()]
    .sort((one, other) => other.files - one.files || other.count - one.count)
    .map(({ count, files, text }) => `  ${number(count)} in ${number(files)}  ${text}`);
}

function kindsOf(notes: readonly DisplayNote[]): string {
  const counts = new Map<string, number>();
  for (const { count, kind } of notes.filter(hides)) {
    counts.set(kind, (counts.get(kind) ?? 0) + count);
  }
  return [...counts].map(([kind, count]) => `${number(count)} × ${kind}`).join(", ");
}
