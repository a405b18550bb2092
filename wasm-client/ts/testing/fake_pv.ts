/** A PV of the fake relay, and its encoding for the wire. */

import { TYPES } from "../store/elements.js";
import { BlobField, ConnectionField, LimitsField, MetadataField, NodeField } from "../schema.js";
import type { NumericArray, PvField, PvRange, PvStructure, PvType, Severity } from "../types.js";
import {
  bool,
  f64,
  i16,
  i64,
  list,
  table,
  text,
  u32,
  u8,
  vector,
  type Field,
  type Fields,
  type Part,
} from "./flatbuffer.js";

/** A value of a fake PV; an object is a structure, `{ selected, value }` in it a union. */
export type FakeValue =
  number | bigint | string | boolean | NumericArray | readonly string[] | PvStructure;

/** The state of a fake PV. Omitted fields keep their state; initially everything is unknown. */
export interface FakePv {
  /** The value; a value makes the PV connected and counts as an update. */
  value?: FakeValue;
  /** @default a type that fits the value: `Float64` for a number, `Enum` if there are choices */
  type?: PvType;
  /** Milliseconds past the POSIX epoch; `null` without a time stamp. @default now, on the relay's clock */
  timeMs?: number | null;
  /** `null` without an alarm. */
  severity?: Severity | null;
  /** Alarm condition, 0 to 21 as in EPICS's alarm.h: 3 HIHI, 4 HIGH, 5 LOLO, 6 LOW, 7 STATE, 17 UDF. */
  alarmStatus?: number;
  /** The alarm message as sent by the server. */
  message?: string;
  /** Engineering units. */
  units?: string;
  /** Digits after the decimal point. */
  precision?: number;
  /** Labels of an enum by index. */
  choices?: readonly string[];
  /** The record's description. */
  description?: string;
  /** Identifier of a pvAccess structure, such as `epics:nt/NTTable:1.0`. */
  typeId?: string;
  /** How pvAccess wants a number shown, such as `Hex`. */
  form?: string;
  /** Display limits (LOPR to HOPR). */
  displayRange?: PvRange;
  /** Control limits (DRVL to DRVH). */
  controlRange?: PvRange;
  /** Warning limits (LOW to HIGH). */
  warningRange?: PvRange;
  /** Alarm limits (LOLO to HIHI). */
  alarmRange?: PvRange;
  /** With `state: "notFound"`: the reason why there is no such field, and the existing fields. */
  missingField?: string;
  /** @default "connected" */
  state?: "connecting" | "notFound" | "connected" | "disconnected";
  /** Its server has stopped answering. @default false */
  unresponsive?: boolean;
  /** The IOC grants read access. @default true */
  readable?: boolean;
  /** The IOC grants write access; `null` if only a put can show it. @default true */
  mutable?: boolean | null;
  /** The relay permits puts to it. @default true */
  puts?: boolean;
}

export const STATES = ["connecting", "notFound", "connected", "disconnected"] as const;
const SEVERITIES: readonly Severity[] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

/** Means that the server sends no alarm. */
const NO_ALARM_FIELD = 0xffff;

export const nanoseconds = (ms: number): bigint => BigInt(Math.round(ms * 1000)) * 1000n;

/** One PV of the fake relay, with its number and its current state. */
export class PvState {
  epoch = 0;
  sequence = 0;
  sinceMs: number;
  heardMs = 0;
  fields: FakePv = {};

  constructor(
    readonly id: number,
    nowMs: number,
  ) {
    this.sinceMs = nowMs;
  }

  get state(): (typeof STATES)[number] {
    return this.fields.state ?? "connected";
  }

  get type(): PvType {
    const { choices, type, value } = this.fields;
    if (type !== undefined) return type;
    if (choices !== undefined) return "Enum";
    return value === undefined ? "Unknown" : typeOf(value);
  }

  get severity(): number {
    return SEVERITIES.indexOf(this.fields.severity ?? "NO_ALARM");
  }

  get alarmStatus(): number {
    return this.fields.severity === null ? NO_ALARM_FIELD : (this.fields.alarmStatus ?? 0);
  }

  get elementCount(): number {
    const { value } = this.fields;
    return isList(value) ? value.length : 1;
  }

  /** Whether there are metadata to send. */
  get isDescribed(): boolean {
    return this.type !== "Unknown" || this.fields.missingField !== undefined;
  }

  metadata(): Part {
    const { choices, description, form, missingField, precision, typeId, units } = this.fields;
    return table(MetadataField, {
      id: u32(this.id),
      type: u8(TYPES.indexOf(this.type)),
      elementCount: u32(this.elementCount),
      units: text(units ?? ""),
      precision: i16(precision ?? -1),
      choices: list((choices ?? []).map(text)),
      display: limits(this.fields.displayRange),
      control: limits(this.fields.controlRange),
      warning: limits(this.fields.warningRange),
      alarm: limits(this.fields.alarmRange),
      description: text(description ?? ""),
      epoch: u32(this.epoch),
      typeId: text(typeId ?? ""),
      form: text(form ?? ""),
      missingField: text(missingField ?? ""),
    });
  }

  connection(): Part {
    const { mutable = true, puts = true, readable = true } = this.fields;
    return table(ConnectionField, {
      id: u32(this.id),
      state: u8(STATES.indexOf(this.state)),
      sinceNs: i64(nanoseconds(this.sinceMs)),
      read: bool(readable),
      write: bool(mutable !== false),
      puts: bool(puts),
      heardNs: i64(nanoseconds(this.heardMs)),
      writeUnknown: bool(mutable === null),
    });
  }

  /** Whether the value fits a double exactly. */
  get isNumber(): boolean {
    const { value } = this.fields;
    return typeof value === "number" || typeof value === "boolean";
  }

  blob(timeNs: bigint): Part {
    const { value } = this.fields;
    const structured = this.type === "Structure";
    return table(BlobField, {
      id: u32(this.id),
      timeNs: i64(timeNs),
      type: u8(TYPES.indexOf(this.type)),
      ...(structured
        ? { count: u32(1), structure: node("", value as PvStructure) }
        : elements(value as PvField, this.type)),
    });
  }
}

const isList = (value: unknown): value is { length: number } =>
  Array.isArray(value) || ArrayBuffer.isView(value);

function typeOf(value: PvField): PvType {
  switch (typeof value) {
    case "number":
      return "Float64";
    case "bigint":
      return "Int64";
    case "string":
      return "String";
    case "boolean":
      return "Boolean";
    default:
      if (value === null) return "Unknown";
      if (ArrayBuffer.isView(value)) return ARRAY_TYPES.get(value.constructor) ?? "Unknown";
      return Array.isArray(value) ? typeOf((value[0] ?? "") as PvField) : "Structure";
  }
}

const ARRAY_TYPES = new Map<unknown, PvType>([
  [Float64Array, "Float64"],
  [Float32Array, "Float32"],
  [Int8Array, "Int8"],
  [Uint8Array, "UInt8"],
  [Int16Array, "Int16"],
  [Uint16Array, "UInt16"],
  [Int32Array, "Int32"],
  [Uint32Array, "UInt32"],
  [BigInt64Array, "Int64"],
  [BigUint64Array, "UInt64"],
]);

function limits(range: PvRange | undefined): Field {
  return range && table(LimitsField, { low: f64(range.min ?? NaN), high: f64(range.max ?? NaN) });
}

type Elements = Pick<Fields<typeof NodeField>, "array" | "count" | "data" | "text">;

/** The elements of a value in the fields that a Blob and a Node have in common. */
function elements(value: PvField, type: PvType): Elements {
  const array = isList(value);
  const all = (
    array ? [...(value as readonly (string | number)[])] : [value]
  ) as readonly unknown[];
  const head = { array: bool(array), count: u32(all.length) };
  if (type === "String") return { ...head, text: list(all.map((entry) => text(entry as string))) };
  const bytes = ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(scalar(value as number | bigint | boolean, type).buffer);
  const words = Math.ceil(bytes.length / 8);
  const padded = new Uint8Array(8 * words);
  padded.set(bytes);
  return { ...head, data: vector(padded, words, 8) };
}

function scalar(value: number | bigint | boolean, type: PvType): NumericArray {
  switch (type) {
    case "Int64":
      return BigInt64Array.of(BigInt(value));
    case "UInt64":
      return BigUint64Array.of(BigInt(value));
    case "Boolean":
      return Uint8Array.of(Number(value));
    default:
      return Float64Array.of(Number(value));
  }
}

/** A value as a Node; for a structure with its fields at all depths. */
export function node(name: string, value: PvField): Part {
  const type = typeOf(value);
  const fields = { name: text(name), type: u8(TYPES.indexOf(type)) };
  if (type === "Unknown") return table(NodeField, fields);
  if (type !== "Structure") return table(NodeField, { ...fields, ...elements(value, type) });
  const structures = Array.isArray(value) ? (value as readonly PvStructure[]) : undefined;
  if (structures !== undefined) {
    return table(NodeField, {
      ...fields,
      array: bool(true),
      count: u32(structures.length),
      fields: list(structures.map((entry) => node("", entry))),
    });
  }
  const { selected, value: member, ...more } = value as PvStructure;
  if (typeof selected === "string" && member !== undefined && Object.keys(more).length === 0) {
    return table(NodeField, {
      ...fields,
      type: u8(TYPES.indexOf("Union")),
      count: u32(1),
      fields: list([node(selected, member)]),
    });
  }
  const inner = Object.entries(value as PvStructure).map(([key, entry]) => node(key, entry));
  return table(NodeField, { ...fields, count: u32(1), fields: list(inner) });
}
