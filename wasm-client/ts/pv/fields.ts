/** Reads the fields of selections. The table of fields is in `graphql/src/schema.rs`. */

import { Cause, compileSelection, type Columns } from "../store/core.js";
import { SelectionError } from "../errors.js";
import { formatArray, formatNumber, formatTime, iso } from "../store/format.js";
import { isFields, Kind, NO_METADATA, type Metadata, type Slot } from "../store/slot.js";
import { ANY, objectOf, type Field, type Maker, type Reader, type Show } from "./objects.js";
import type { PvConnectionState, PvField, PvRange, PvType, Quality, Severity } from "../types.js";

export { ALL_PARTS, type Reader } from "./objects.js";

const NOT_FOUND = 1;
const CONNECTED = 2;
const REFUSED = 5;
const READ = 1;
const WRITE = 2;
const PUTS = 4;
const UNKNOWN = 8;
const REFUSED_PUT = 16;
const TAKEN_PUT = 32;

/** In the order of the numbers of the state column. */
export const STATES: readonly PvConnectionState[] = [
  "connecting",
  "notFound",
  "connected",
  "disconnected",
  "relayLost",
  "refused",
];

const NOT_CONNECTED: readonly string[] = [
  "not connected yet",
  "not found",
  "",
  "disconnected",
  "relay lost",
];

/** In the order of the numbers of the severity column. */
export const SEVERITIES: readonly Severity[] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

const QUALITIES: readonly Quality[] = ["VALID", "WARNING", "ALARM", "INVALID"];

/** Alarm conditions of EPICS's alarm.h. */
const ALARM_STATUSES: readonly string[] = [
  "NO_ALARM",
  "READ",
  "WRITE",
  "HIHI",
  "HIGH",
  "LOLO",
  "LOW",
  "STATE",
  "COS",
  "COMM",
  "TIMEOUT",
  "HWLIMIT",
  "CALC",
  "SCAN",
  "LINK",
  "SOFT",
  "BAD_SUB",
  "UDF",
  "DISABLE",
  "SIMM",
  "READ_ACCESS",
  "WRITE_ACCESS",
];

/** Classes of pvAccess's alarms, from 100 on. */
const ALARM_CLASSES = ["NONE", "DEVICE", "DRIVER", "RECORD", "DB", "CONF", "UNDEFINED", "CLIENT"];

const state = (slot: Slot, columns: Columns): number => columns.state[slot.index] as number;

const connected: Reader = (slot, columns) => state(slot, columns) === CONNECTED;

/** When the PV's server or the relay was last heard from; NaN while they answer. */
const heardMs = ({ index, needsRelay, wasm }: Slot, columns: Columns): number => {
  const ms = columns.heardMs[index] as number;
  return Number.isNaN(ms) && needsRelay ? wasm.heardMs : ms;
};

export const unresponsive = (slot: Slot, columns: Columns): boolean =>
  state(slot, columns) === CONNECTED && !Number.isNaN(heardMs(slot, columns));

const alarmStatus = (slot: Slot, columns: Columns): string => {
  const status = columns.alarmStatus[slot.index] as number;
  return ALARM_STATUSES[status] ?? ALARM_CLASSES[status - 100] ?? String(status);
};

const number = (slot: Slot, columns: Columns): number | null => {
  const kind = columns.kind[slot.index];
  if (kind !== Kind.number && kind !== Kind.largeInteger) return null;
  return columns.value[slot.index] as number;
};

const array: Reader = (slot, columns) => {
  switch (columns.kind[slot.index]) {
    case Kind.array:
      return slot.array();
    case Kind.textArray:
      return slot.texts(columns);
    default:
      return null;
  }
};

/** Exact value of an integer of any size. */
const bigint = (slot: Slot, columns: Columns): bigint | null => {
  switch (columns.kind[slot.index]) {
    case Kind.largeInteger:
      return BigInt(slot.text(columns));
    case Kind.number: {
      const value = columns.value[slot.index] as number;
      // A larger number is a value of another type than the metadata say.
      const fits = Number.isInteger(value) && Math.abs(value) < 2 ** 64;
      return fits && isInteger(slot.metadata(columns).type) ? BigInt(value) : null;
    }
    default:
      return null;
  }
};

const isInteger = (type: PvType): boolean => /^U?Int/.test(type);

/** Whether the IOC permits puts; `null` if only a put can show it. */
export const mutable = (slot: Slot, columns: Columns): boolean | null => {
  const access = columns.access[slot.index] as number;
  if (state(slot, columns) !== CONNECTED || access & REFUSED_PUT) return false;
  if (access & TAKEN_PUT) return true;
  return access & UNKNOWN ? null : (access & WRITE) !== 0;
};

/** Why a PV whose server exists isn't found: there is no such field. */
const missingField = (slot: Slot, columns: Columns): string =>
  state(slot, columns) === NOT_FOUND ? slot.metadata(columns).missingField : "";

const readable: Reader = (slot, columns) =>
  connected(slot, columns) === true && ((columns.access[slot.index] as number) & READ) !== 0;

/** A string, or the text in an array of characters. */
const text = (slot: Slot, columns: Columns): string | null => {
  const kind = columns.kind[slot.index];
  if (kind === Kind.text) return slot.text(columns);
  return kind === Kind.array ? slot.characters() : null;
};

const string = (slot: Slot, columns: Columns): string => {
  const metadata = slot.metadata(columns);
  const { precision, type } = metadata;
  switch (columns.kind[slot.index]) {
    case Kind.number: {
      const value = columns.value[slot.index] as number;
      return metadata.choices?.[value] ?? formatNumber(value, precision, type);
    }
    case Kind.text:
    case Kind.largeInteger:
      return slot.text(columns);
    case Kind.array:
      // NAME.FIELD$ is EPICS's way to ask for a long string.
      return (
        (slot.id.endsWith("$") || metadata.form === "String" ? text(slot, columns) : null) ??
        formatArray(slot.array(), precision, type)
      );
    case Kind.textArray:
      return formatArray(slot.texts(columns), precision);
    case Kind.structure: {
      const structure = slot.structure();
      if (Array.isArray(structure)) return `(${String(structure.length)} structures)`;
      return `(${metadata.typeId === "" ? "structure" : metadata.typeId})`;
    }
    default:
      return "(a value of a type that this page doesn't know)";
  }
};

const structured = (slot: Slot, columns: Columns): PvField =>
  columns.kind[slot.index] === Kind.structure ? slot.structure() : null;

/** Fields that read one metadata field. */
const metadata =
  (name: keyof Metadata): Reader =>
  (slot, columns) =>
    slot.metadata(columns)[name];

const skip =
  (cause: number): Reader =>
  ({ index }, { skips }) =>
    skips[index * Cause.count + cause];

/** Number of values skipped for any cause. */
export const skipped = ({ skips }: Columns, index: number): number =>
  skips
    .subarray(index * Cause.count, (index + 1) * Cause.count)
    .reduce((sum, count) => sum + count);

const READERS: Readonly<Record<string, Reader>> = {
  id: (slot) => slot.id,
  skipped: ({ index }, columns) => skipped(columns, index),
  "value.float": (slot, columns) => {
    const value = number(slot, columns);
    return Number.isFinite(value) ? value : null;
  },
  "value.number": number,
  "value.string": string,
  "value.string(units)": (slot, columns) => {
    const { type, units } = slot.metadata(columns);
    const text = string(slot, columns);
    return units === "" || type === "Enum" || type === "String" ? text : `${text} ${units}`;
  },
  "value.text": text,
  "value.array": array,
  "value.exact": (slot, columns) => bigint(slot, columns)?.toString() ?? null,
  "value.bigint": bigint,
  "value.structure": (slot, columns) => {
    const structure = structured(slot, columns);
    return isFields(structure) ? structure : null;
  },
  "value.structures": (slot, columns) => {
    const structure = structured(slot, columns);
    return Array.isArray(structure) ? structure : null;
  },
  "time.datetime": (slot, columns) =>
    formatTime(columns.seconds[slot.index] as number, columns.nanoseconds[slot.index] as number),
  "time.seconds": ({ index }, columns) =>
    (columns.seconds[index] as number) + (columns.nanoseconds[index] as number) / 1e9,
  "time.nanoseconds": (slot, columns) => columns.nanoseconds[slot.index],
  "time.userTag": (slot) => slot.userTag(),
  "status.quality": (slot, columns) => {
    const isKnown = connected(slot, columns) === true && !unresponsive(slot, columns);
    const quality = isKnown ? QUALITIES[columns.severity[slot.index] as number] : undefined;
    return quality ?? "UNDEFINED";
  },
  "status.severity": (slot, columns) => SEVERITIES[columns.severity[slot.index] as number] ?? null,
  "status.alarmStatus": (slot, columns) =>
    SEVERITIES[columns.severity[slot.index] as number] === undefined
      ? null
      : alarmStatus(slot, columns),
  "status.message": (slot, columns) => {
    const now = state(slot, columns);
    if (now === REFUSED) return slot.wasm.core.reason(slot.index);
    if (now !== CONNECTED) return missingField(slot, columns) || (NOT_CONNECTED[now] ?? "");
    if (unresponsive(slot, columns)) return "no news";
    const severity = columns.severity[slot.index] as number;
    if (severity === 0 || severity >= SEVERITIES.length) return "";
    const message = slot.alarmMessage();
    return message === "" ? alarmStatus(slot, columns) : message;
  },
  "status.mutable": (slot, columns) => mutable(slot, columns) !== false,
  "status.writable": (slot, columns) =>
    ((columns.access[slot.index] as number) & PUTS) !== 0 && mutable(slot, columns),
  "connection.state": (slot, columns) => STATES[state(slot, columns)] ?? "connecting",
  "connection.connected": connected,
  "connection.since": (slot, columns) => slot.since(columns),
  "connection.lastHeard": (slot, columns) => iso(heardMs(slot, columns)),
  "connection.unresponsive": unresponsive,
  "connection.readable": readable,
  "connection.reason": (slot, columns) => {
    const now = state(slot, columns);
    if (now === REFUSED) return slot.wasm.core.reason(slot.index);
    if (now !== CONNECTED) return missingField(slot, columns) || null;
    return readable(slot, columns) === true ? null : "the IOC gives no read access";
  },
};

const hasValue: Reader = (slot, columns) => columns.kind[slot.index] !== Kind.none;

/** On the wire the time is 0 if the server sends no time stamp. */
const hasTime: Reader = (slot, columns) =>
  hasValue(slot, columns) === true &&
  (columns.seconds[slot.index] !== 0 || columns.nanoseconds[slot.index] !== 0);

/** Objects that can be missing, and the fields that tell whether they are. */
const PRESENT: Readonly<Record<string, Reader>> = {
  value: hasValue,
  time: hasTime,
  display: (slot, columns) => columns.metadataVersion[slot.index] !== 0,
};

type RangeName = "controlRange" | "displayRange" | "alarmRange" | "warningRange";

export const ALARM = 1 << 2;

/** The part that contains whether a PV is connected and its server answers. */
export const CONNECTION = 1 << 4;

/**
 * Not a part: a plan with this bit reads the description, which some sources send only on request.
 */
export const DESCRIBES = 1 << 29;

/** One object of a selection. */
export interface ObjectPlan extends Maker {
  readonly fields: readonly Field[];
  /** Whether the field at this index is an object. */
  readonly isObject: readonly boolean[];
  /** Parts that the whole object reads. */
  readonly mask: number;
}

/** Text as an application writes it, or compiled; everything if omitted. */
export type Selection = string | ObjectPlan | undefined;

/** Sign, key, name and mask of a field, and its arguments if it takes any. */
export type Words = [string, string, string, string, ...string[]];

/**
 * The reader of a field, by its path and the words of its line; consumes the lines of its contents.
 */
export type MakeReader = (path: string, words: Words, lines: string[]) => Reader | undefined;

/**
 * Turns the module's plan, from the next line to the end of its object, into functions, and removes
 * these lines. `make` takes precedence over the readers of this file.
 */
export function planObject(lines: string[], make?: MakeReader, path = ""): ObjectPlan {
  const fields: Field[] = [];
  const isObject: boolean[] = [];
  let mask = 0;
  let line: string | undefined;
  // The last line of the plan is empty.
  while ((line = lines.shift()) && line !== "}") {
    const words = line.split(" ") as Words;
    const [sign, key, name, own, args] = words;
    const inner = path ? `${path}.${name}` : name;
    const field =
      make?.(inner, words, lines) ??
      (sign === "{" ? planObject(lines, make, inner) : leaf(name, inner, path, args));
    // A function itself reads no parts.
    const described = inner.endsWith("display.description") ? DESCRIBES : 0;
    const parts = Number(own) | (field as ObjectPlan).mask | described;
    const isReader = typeof field === "function";
    fields.push([key, parts | ANY, isReader ? field : field.show]);
    isObject.push(!isReader);
    mask |= parts;
  }
  return { fields, isObject, mask, ...objectOf(fields, presence(path)) };
}

const plans = new Map<string | undefined, ObjectPlan>();

/** Maximum number of compiled selections that are kept; an application has few. */
const MAX_PLANS = 1000;

/** A selection's functions, compiled once. Only when the module is loaded. */
export function planSelection(selection: Selection): ObjectPlan {
  if (typeof selection === "object") return selection;
  let plan = plans.get(selection);
  if (plan === undefined) {
    const text = compileSelection(selection ?? "*");
    if (text.startsWith("[")) throw new SelectionError(text);
    try {
      plan = planObject(text.split("\n"));
    } catch (error) {
      throw elsewhere(selection ?? "", (error as Error).cause as string);
    }
    if (plans.size >= MAX_PLANS) plans.clear();
    plans.set(selection, plan);
  }
  return plan;
}

/** The error for a field that only GraphQL documents may select. */
function elsewhere(selection: string, path: string): SelectionError {
  const field = path.split(".")[1] ?? path;
  const before = selection.slice(0, selection.search(`\\b${field}\\b`)).split("\n");
  const column = (before.at(-1) ?? "").length + 1;
  const message = `${path} is answered by pvwire/graphql only`;
  return new SelectionError(
    JSON.stringify([{ message, locations: [{ line: before.length, column }] }]),
  );
}

/** The range that the fields at a path belong to. */
const rangeAt = (path: string): RangeName | undefined =>
  /\w+Range/.exec(path)?.[0] as RangeName | undefined;

function presence(path: string): Reader | undefined {
  const range = rangeAt(path);
  return range === undefined
    ? PRESENT[path]
    : (slot, columns) => slot.metadata(columns)[range] !== null;
}

function leaf(name: string, path: string, parent: string, args: string | undefined): Reader {
  const [, type] = name.split(":");
  if (type !== undefined) return () => type;
  const range = rangeAt(parent);
  if (range !== undefined) {
    return (slot, columns) => slot.metadata(columns)[range]?.[name as keyof PvRange] ?? null;
  }
  if (parent === "skips" && name in Cause) return skip(Cause[name as keyof typeof Cause]);
  if (parent === "display" && name in NO_METADATA) return metadata(name as keyof Metadata);
  const reader = READERS[args?.includes("true") ? `${path}(units)` : path];
  if (reader === undefined) throw new Error("not a field of PVs", { cause: path });
  return reader;
}

/** The last values of one reader of a selection. */
export class View {
  #show: Show;
  #shown: ReturnType<Show> = null;

  constructor({ show }: ObjectPlan) {
    this.#show = show;
  }

  show(slot: Slot, columns: Columns, changedParts: number): object | null {
    this.#shown = this.#show(slot, columns, changedParts, this.#shown);
    return this.#shown;
  }
}
