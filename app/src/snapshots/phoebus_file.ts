/**
 * Snapshots as the CSV of Phoebus's save-and-restore, and its older `.snp`: comment lines, a line with the names of
 * the columns, one line for each PV. A value is in quotation marks, arrays have semicolons, and an enum is
 * `label~[label;label]`. The format has no quotation marks inside a text.
 */

import { t } from "pvwire";

import { dateText } from "../times";
import { toleranceOf } from "./compare";
import {
  isUnique,
  labelOf,
  missingPv,
  newId,
  type SavedPv,
  type Scalar,
  type Snapshot,
} from "./snapshot";

const OPENING = "AUTO-GENERATED. DON'T EDIT BELOW IF YOU DON'T KNOW HOW THOSE WORK!";
const ENDING = "AUTO-GENERATED. DON'T EDIT ABOVE IF YOU DON'T KNOW HOW THOSE WORK!";

const COLUMNS =
  "PV,SELECTED,TIMESTAMP,STATUS,SEVERITY,VALUE_TYPE,VALUE,READBACK,READBACK_VALUE,DELTA,READ_ONLY";

/** Phoebus writes unsigned types and doesn't read them: each is the next signed one that has all its numbers. */
const TYPES: Readonly<Record<string, string>> = {
  Float64: "double",
  Float32: "float",
  Int8: "byte",
  UInt8: "short",
  Int16: "short",
  UInt16: "int",
  Int32: "int",
  UInt32: "long",
  Int64: "long",
  UInt64: "long",
  Boolean: "int",
};

const MAX_LONG = 2n ** 63n - 1n;

const UNDEFINED = "UNDEFINED";

/** What the format would turn into another text. */
const UNFIT = /["\r\n~;]|^\[|^---$/;

/** A number as Java reads it. */
const javaText = (scalar: Scalar): string =>
  scalar === Infinity ? "Infinity" : scalar === -Infinity ? "-Infinity" : String(scalar);

type Cells = readonly [type: string, value: string];

/** Type and value of a PV; `undefined` if the format can't have it exactly. */
function cellsOf(pv: SavedPv): Cells | undefined {
  const { choices, type, value } = pv;
  if (value === undefined) return ["na", "---"];
  const label = labelOf(pv);
  if (label !== undefined && choices !== undefined) {
    const areFit = choices.every((each) => !/["\r\n~;[\],]/.test(each));
    const isFit = areFit && label !== "" && isUnique(label, choices);
    return isFit ? ["enum", `${label}~[${choices.join(";")}]`] : undefined;
  }
  const elements = typeof value === "object" ? value : [value];
  const isText = elements.some((each) => typeof each === "string");
  const isFit = (each: Scalar): boolean =>
    typeof each === "string" ? !UNFIT.test(each) : typeof each === "number" || each <= MAX_LONG;
  if (!elements.every(isFit)) return undefined;
  const name = isText ? "string" : (TYPES[type] ?? "double");
  if (typeof value !== "object") return [name, javaText(value)];
  const inside = elements.map(javaText).join(";");
  // An array without elements would be read as one with a zero, and one of an empty text as one without elements.
  return inside === "" ? undefined : [`${name}_array`, `[${inside}]`];
}

const quoted = (text: string): string => `"${text}"`;

export interface PhoebusText {
  readonly text: string;
  /** PVs whose value the format can't have; they are in the file as disconnected ones, unless it can't have their names. */
  readonly unfit: readonly string[];
}

export function phoebusOf({ comment, pvs, takenMs, title }: Snapshot): PhoebusText {
  const unfit: string[] = [];
  const rows = pvs.flatMap((pv) => {
    const fit = cellsOf(pv);
    const isNamed = !/["\r\n]/.test(pv.name);
    if (fit === undefined || !isNamed) unfit.push(pv.name);
    if (!isNamed) return [];
    const [type, value] = fit ?? ["na", "---"];
    const severity = pv.severity === "NO_ALARM" ? "NONE" : (pv.severity ?? UNDEFINED);
    const status = pv.status === "NO_ALARM" ? "NONE" : (pv.status ?? UNDEFINED);
    const time = `${String(pv.seconds)}.${String(pv.nanoseconds).padStart(9, "0")}`;
    const name = pv.name.includes(",") ? quoted(pv.name) : pv.name;
    const head = [name, "1", time, status, severity, type, quoted(value)];
    // Without the comma of some countries and without blanks, which the format doesn't have.
    const delta = pv.tolerance.replace(",", ".").replace(/\s/g, "");
    return [[...head, "", quoted("---"), delta, pv.readOnly === true ? "1" : "0"].join(",")];
  });
  const date = `${dateText(takenMs, false)}.${String(takenMs % 1000).padStart(3, "0")}`;
  const lines = [OPENING, "Hierarchy:", "pvwire", "Snapshot name:", title, "Description:"];
  const about = comment === "" ? ["pvwire"] : comment.split(/\r?\n/);
  const after = ["Creator:", "pvwire", "Date:", date, "Tags:", ENDING];
  const comments = [...lines, ...about, ...after].map((line) => `# ${line}`);
  return { text: [...comments, COLUMNS, ...rows, ""].join("\n"), unfit };
}

/** The cells of a line. `isSure` is false if a text has a quotation mark or a line feed, which the format can't have. */
function cellsIn(line: string): { readonly cells: string[]; readonly isSure: boolean } {
  const found = [...line.matchAll(/(?:^|,)(?:"([^"]*)"|([^,]*))/g)];
  const isWhole = found.map(([all]) => all).join("") === line;
  return {
    cells: found.map(([, inQuotes, bare]) => inQuotes ?? (bare ?? "").trim()),
    isSure: isWhole && !found.some(([, , bare]) => bare?.includes('"')),
  };
}

const NUMBERS = /^(?:double|float|number)$/;
const INTEGERS = /^u?(?:byte|short|int|long)$/;

const OUR_TYPES: Readonly<Record<string, SavedPv["type"]>> = {
  double: "Float64",
  number: "Float64",
  float: "Float32",
  byte: "Int8",
  ubyte: "UInt8",
  short: "Int16",
  ushort: "UInt16",
  int: "Int32",
  uint: "UInt32",
  long: "Int64",
  ulong: "UInt64",
  enum: "Enum",
  boolean: "Boolean",
  string: "String",
};

function scalarOf(type: string, text: string): Scalar {
  if (type === "string" || type === "enum") return text;
  if (type === "boolean") return text === "true" ? 1 : 0;
  const isNumber =
    NUMBERS.test(type) && (/^[\d.eE+-]+$/.test(text) || /^NaN$|^-?Infinity$/.test(text));
  if (isNumber && !(Number.isNaN(Number(text)) && text !== "NaN")) {
    return type === "float" ? Math.fround(Number(text)) : Number(text);
  }
  if (INTEGERS.test(type) && /^[-+]?\d+$/.test(text)) {
    const whole = BigInt(text.replace("+", ""));
    return Number.isSafeInteger(Number(whole)) ? Number(whole) : whole;
  }
  throw new Error(t`“${text}” is no value of the type ${type}`);
}

const SEVERITIES = ["MINOR", "MAJOR", "INVALID"] as const;

type Row = Readonly<Record<string, string>>;

function pvOf(row: Row): SavedPv {
  const name = row.PV ?? "";
  const type = row.VALUE_TYPE ?? "string";
  // Blanks around a text or a label belong to it.
  const value = /^(?:string|enum)/.test(type) ? (row.VALUE ?? "") : (row.VALUE ?? "").trim();
  if (type === "na" || value === "---" || (value === "" && type !== "string")) {
    return missingPv(name, t`not connected when the snapshot was taken`);
  }
  const [, seconds = "0", nanoseconds = "0"] = /^(\d+)\.?(\d*)$/.exec(row.TIMESTAMP ?? "") ?? [];
  const [plain = "", labels] = type.startsWith("string") ? [value] : value.split("~");
  const choices = labels?.replace(/^\[|\]$/g, "").split(";");
  const severity = SEVERITIES.find((each) => each === row.SEVERITY?.toUpperCase());
  const common = {
    name,
    missing: "",
    choices,
    text: plain,
    severity: severity ?? (/^(?:NONE|NO_ALARM|OK)$/.test(row.SEVERITY ?? "") ? "NO_ALARM" : null),
    status: row.STATUS === "NONE" ? "NO_ALARM" : (row.STATUS ?? null),
    seconds: Number(seconds),
    // A count of nanoseconds, not the digits after a decimal point.
    nanoseconds: Number(nanoseconds),
    tolerance: toleranceOf(row.DELTA ?? "") === undefined ? "" : (row.DELTA ?? "").trim(),
    ...(/^(?:1|true)$/i.test(row.READ_ONLY ?? "") ? { readOnly: true } : {}),
  } as const;
  const [, element] = /^(.*)_array$/.exec(type) ?? [];
  if (element !== undefined) {
    const inside = plain.replace(/^\[|\]$/g, "");
    const texts = inside === "" ? [] : inside.split(";");
    const isText = element === "string";
    const elements = texts.map((each) => scalarOf(element, isText ? each : each.trim()));
    return {
      ...common,
      choices: undefined,
      type: OUR_TYPES[element] ?? "Unknown",
      value: elements,
    };
  }
  if (type === "enum" && choices !== undefined) {
    const index = choices.indexOf(plain);
    if (!isUnique(plain, choices)) {
      return missingPv(name, t`the file has several choices “${plain}”`);
    }
    return { ...common, type: "Enum", value: index >= 0 ? index : scalarOf("int", plain) };
  }
  return { ...common, type: OUR_TYPES[type] ?? "Unknown", value: scalarOf(type, plain) };
}

const TAG = /^(?:Hierarchy|SaveSet name|Snapshot name|Description|Creator|Date|Tags):|^AUTO-/;

interface Comments {
  readonly title: string;
  readonly comment: string;
  readonly takenMs: number;
}

function readComments(lines: readonly string[], fileName: string): Comments {
  const texts = lines.map((line) => line.replace(/^#\s?/, "").trim());
  /** The text after a tag, in its line or in the next ones. */
  const after = (tag: string): string[] => {
    const at = texts.findIndex((text) => text.startsWith(tag));
    const same = texts[at]?.slice(tag.length).trim() ?? "";
    if (at < 0 || same !== "") return at < 0 ? [] : [same];
    const end = texts.findIndex((text, next) => next > at && TAG.test(text));
    return texts.slice(at + 1, end < 0 ? undefined : end);
  };
  const takenMs = Date.parse(after("Date:")[0]?.replace(" ", "T") ?? "");
  const title = after("Snapshot name:")[0] ?? "";
  return {
    title: title === "" ? fileName : title,
    comment: after("Description:").join("\n"),
    takenMs: Number.isNaN(takenMs) ? 0 : takenMs,
  };
}

/** Reads a file of Phoebus; rows that can't be read are named in the error. */
export function snapshotOfPhoebus(text: string, fileName: string): Snapshot {
  const lines = text.split(/\r?\n/);
  const comments = lines.filter((line) => line.startsWith("#"));
  const [head = "", ...rows] = lines.filter((line) => line.trim() !== "" && !line.startsWith("#"));
  const { cells: columns } = cellsIn(head);
  if (!columns.includes("PV")) throw new Error(t`this file has no column PV`);
  if (!columns.includes("VALUE")) {
    throw new Error(t`this file is a list of PVs without values: paste its names as a list`);
  }
  const pvs = new Map<string, SavedPv>();
  for (const line of rows) {
    const { cells, isSure } = cellsIn(line);
    const row = Object.fromEntries(columns.map((column, at) => [column, cells[at] ?? ""]));
    const pv = isSure
      ? pvOf(row)
      : missingPv(
          row.PV ?? "",
          t`its line has a text with a quotation mark or a line feed, and can't be read`,
        );
    if (pv.name !== "") pvs.set(pv.name, pv);
  }
  const read = readComments(comments, fileName);
  return { id: newId(), ...read, pvs: [...pvs.values()] };
}
