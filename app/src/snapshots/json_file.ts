/** Snapshots as JSON. JSON has neither NaN nor integers beyond 2^53: these are objects with their text. */

import { t } from "pvwire";

import {
  newId,
  textOf,
  type SavedPv,
  type SavedValue,
  type Scalar,
  type Snapshot,
} from "./snapshot";

const FORMAT = "pvwire-snapshot";
const VERSION = 1;

type JsonScalar = number | string | { readonly number: string } | { readonly integer: string };

function toJson(scalar: Scalar): JsonScalar {
  if (typeof scalar === "bigint") return { integer: String(scalar) };
  if (typeof scalar === "string" || Number.isFinite(scalar)) return scalar;
  return { number: String(scalar) };
}

/** A file may have been edited: what it doesn't write itself is refused. */
function fromJson(scalar: unknown): Scalar {
  if (typeof scalar === "number" || typeof scalar === "string") return scalar;
  const { integer = "", number = "" } = Object(scalar) as { integer?: string; number?: string };
  if (/^-?\d+$/.test(integer)) return BigInt(integer);
  if (/^(?:NaN|-?Infinity)$/.test(number)) return Number(number);
  throw new Error(t`${JSON.stringify(scalar)} is no value`);
}

/** The same for a text; a number written in its place, such as a tolerance, is taken as its text. */
function textIn(given: unknown, what: string): string {
  if (typeof given === "string" || typeof given === "number") return String(given);
  if (given === undefined || given === null) return "";
  throw new Error(t`${what} of the file is no text`);
}

const isArray = (value: SavedValue): value is readonly Scalar[] => typeof value === "object";

export function jsonOf({ comment, pvs, takenMs, title }: Snapshot): string {
  const rows = pvs.map((pv) => {
    const { choices, missing, name, nanoseconds, seconds, severity, status } = pv;
    if (pv.value === undefined) return { name, missing };
    const { text, tolerance, type } = pv;
    const value = isArray(pv.value) ? pv.value.map(toJson) : toJson(pv.value);
    const given = tolerance === "" ? {} : { tolerance };
    const marked = pv.readOnly === true ? { readOnly: true } : {};
    const labels = choices === undefined ? {} : { choices };
    const time = { seconds, nanoseconds };
    return { name, type, value, text, ...labels, severity, status, time, ...given, ...marked };
  });
  const head = { format: FORMAT, version: VERSION, title, comment };
  const taken = new Date(takenMs).toISOString();
  // One PV in a line, so that two files can be compared with any tool.
  const lines = rows.map((row) => `    ${JSON.stringify(row)}`).join(",\n");
  const begin = JSON.stringify({ ...head, taken }, undefined, 2).replace(/\n\}$/, "");
  return `${begin},\n  "pvs": [\n${lines}\n  ]\n}\n`;
}

interface JsonPv {
  readonly name?: string;
  readonly missing?: string;
  readonly type?: SavedPv["type"];
  readonly value?: JsonScalar | readonly JsonScalar[];
  readonly choices?: readonly string[];
  readonly severity?: SavedPv["severity"];
  readonly status?: string | null;
  readonly time?: { readonly seconds?: unknown; readonly nanoseconds?: unknown };
  readonly tolerance?: string;
  readonly readOnly?: boolean;
}

interface JsonSnapshot {
  readonly format?: string;
  readonly version?: number;
  readonly title?: string;
  readonly comment?: string;
  readonly taken?: string;
  readonly pvs?: readonly JsonPv[];
}

const isJsonArray = (value: JsonPv["value"]): value is readonly JsonScalar[] =>
  Array.isArray(value);

function pvOf(row: JsonPv): SavedPv {
  const { value } = row;
  const name = textIn(row.name, t`a PV's name`);
  if (name === "") throw new Error(t`a PV of the file has no name`);
  const one = value === undefined || isJsonArray(value) ? undefined : fromJson(value);
  const saved = isJsonArray(value) ? value.map(fromJson) : one;
  return {
    name,
    value: saved,
    missing:
      textIn(row.missing, t`a reason`) || (value === undefined ? t`the file has no value` : ""),
    type: row.type ?? "Unknown",
    choices: row.choices?.map((label) => textIn(label, t`a choice`)),
    // The file's own text may be that of another value.
    text: textOf({ choices: row.choices, value: saved }),
    severity: row.severity ?? null,
    status: row.status ?? null,
    seconds: Number(row.time?.seconds) || 0,
    nanoseconds: Number(row.time?.nanoseconds) || 0,
    tolerance: textIn(row.tolerance, t`a tolerance`),
    ...(row.readOnly === true ? { readOnly: true } : {}),
  };
}

export function snapshotOfJson(text: string, fileName: string): Snapshot {
  const read = JSON.parse(text) as JsonSnapshot;
  if (read.format !== FORMAT || !Array.isArray(read.pvs)) {
    throw new Error(t`this JSON is no snapshot of pvwire`);
  }
  if (read.version !== VERSION) {
    throw new Error(t`the file has version ${String(read.version)}; this app reads 1: update it`);
  }
  const pvs = read.pvs.map(pvOf);
  const known = new Set<string>();
  for (const { name } of pvs) {
    // One of the two values would be written, and which one is unknown.
    if (known.has(name)) throw new Error(t`the file has ${name} twice`);
    known.add(name);
  }
  const takenMs = Date.parse(read.taken ?? "");
  return {
    id: newId(),
    title: textIn(read.title, t`the title`) || fileName,
    comment: textIn(read.comment, t`the comment`),
    takenMs: Number.isNaN(takenMs) ? 0 : takenMs,
    pvs,
  };
}
