/** Frames from the plain states of PVs in `client-core/tests/vectors`, as a relay sends them. */

import { nanoseconds } from "../ts/testing/fake_pv.js";
import {
  bool,
  f64,
  i16,
  i64,
  list,
  message,
  table,
  text,
  u32,
  u8,
  vector,
  type Field,
  type Fields,
  type Part,
} from "../ts/testing/flatbuffer.js";
import {
  AlarmRowLayout,
  BlobField,
  ConnectionField,
  ConnectionState,
  DetailField,
  FrameField,
  FrameKind,
  LimitsField,
  MetadataField,
  NodeField,
  NumbersField,
  SkipCause,
  SkipRowLayout,
  ValueType,
} from "../ts/schema.js";

/** A number; special ones and 64-bit integers are text. */
export type Numeric = number | string;

/** A value, or a field of a structure. */
export interface Node {
  readonly type: keyof typeof ValueType;
  readonly name?: string;
  /** A scalar. */
  readonly value?: Numeric | boolean;
  /** Elements of an array: numbers, strings, or nodes. */
  readonly array?: readonly (Numeric | Node)[];
  /** Fields of a structure. */
  readonly fields?: readonly Node[];
  /** The selected field of a union, or what a field of any type holds. */
  readonly holds?: Node | null;
  /** A structure with only the fields that changed. */
  readonly partial?: boolean;
}

export interface Metadata {
  readonly type?: keyof typeof ValueType;
  readonly elementCount?: number;
  readonly units?: string;
  readonly precision?: number;
  readonly choices?: readonly string[];
  readonly display?: readonly (Numeric | null)[];
  readonly control?: readonly (Numeric | null)[];
  readonly warning?: readonly (Numeric | null)[];
  readonly alarm?: readonly (Numeric | null)[];
  readonly description?: string;
  readonly epoch?: number;
  readonly typeId?: string;
  readonly form?: string;
  readonly missingField?: string;
}

export interface Connection {
  readonly state: "connecting" | "notFound" | "connected" | "disconnected";
  /** Milliseconds past the POSIX epoch. */
  readonly sinceMs?: number;
  /** 0 while the server responds. */
  readonly heardMs?: number;
  readonly read?: boolean;
  readonly write?: boolean;
  readonly puts?: boolean;
  readonly writeUnknown?: boolean;
}

/** The parts of a PV that an event changes. */
export interface Parts {
  readonly metadata?: Metadata;
  readonly connection?: Connection;
  readonly value?: Node;
  /** `null`: the server sends no time stamp. */
  readonly time?: {
    readonly seconds: number;
    readonly nanoseconds: number;
    readonly userTag?: number;
  } | null;
  /** `null`: the server sends no alarm. */
  readonly alarm?: {
    readonly severity: string;
    readonly status: number;
    readonly message?: string;
  } | null;
  /** Values skipped before this update, by cause; `behind` and `paced` stand alone. */
  readonly skips?: Readonly<Record<string, number>>;
  /** The relay refuses the name for this reason. */
  readonly refused?: string;
  /** The relay has no value within the time-out of a Get. */
  readonly missing?: string;
  /** The outcome of a put of this client. */
  readonly put?: "done" | "noAccess";
}

/** Whether these parts contain an update of the value. */
export const isUpdate = ({ alarm, skips, time, value }: Parts): boolean =>
  [alarm, skips, time, value].some((part) => part !== undefined);

const SEVERITIES = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];
const CONNECTION_STATES = {
  connecting: ConnectionState.Connecting,
  notFound: ConnectionState.NotFound,
  connected: ConnectionState.Connected,
  disconnected: ConnectionState.Disconnected,
} as const;
const CAUSES: Readonly<Record<string, number>> = {
  relay: SkipCause.Relay,
  source: SkipCause.Source,
  filter: SkipCause.Filter,
  behind: SkipCause.Behind,
  paced: SkipCause.Paced,
  bus: SkipCause.Bus,
};
const NO_ALARM_FIELD = 0xffff;

/** The number of a text such as `-0`, `NaN` or `-Infinity`. */
export const numberOf = (value: Numeric): number => Number(value);

const ELEMENTS = {
  Float64: Float64Array,
  Float32: Float32Array,
  Int8: Int8Array,
  UInt8: Uint8Array,
  Int16: Int16Array,
  UInt16: Uint16Array,
  Int32: Int32Array,
  UInt32: Uint32Array,
  Enum: Uint16Array,
  Boolean: Uint8Array,
} as const;

/** Elements in words of eight bytes. */
function data(type: Node["type"], elements: readonly Numeric[]): Part {
  const array =
    type === "Int64" || type === "UInt64"
      ? (type === "Int64" ? BigInt64Array : BigUint64Array).from(elements.map(BigInt))
      : ELEMENTS[type as keyof typeof ELEMENTS].from(elements.map(Number));
  const words = Math.ceil(array.byteLength / 8);
  const bytes = new Uint8Array(8 * words);
  bytes.set(new Uint8Array(array.buffer));
  return vector(bytes, words, 8);
}

type Contents = Pick<Fields<typeof NodeField>, "type" | "array" | "count" | "data" | "text">;

/** The fields that a Blob and a Node have in common. */
function contents({ array, type, value }: Node): Contents {
  const elements = (array ?? (value === undefined ? [] : [value])) as readonly Numeric[];
  const isNumeric = type in ELEMENTS || type === "Int64" || type === "UInt64";
  return {
    type: u8(ValueType[type]),
    array: bool(array !== undefined),
    count: u32(elements.length),
    text: type === "String" ? list(elements.map((entry) => text(String(entry)))) : undefined,
    data: isNumeric ? data(type, elements) : undefined,
  };
}

function node(of: Node): Part {
  const { array, fields, holds, name = "", type } = of;
  const inner = fields ?? (type === "String" ? undefined : array?.filter(isNode));
  const nested = holds === undefined ? inner : holds === null ? [] : [holds];
  const isCompound = ["Structure", "Union", "Any"].includes(type);
  return table(NodeField, {
    name: text(name),
    ...(isCompound
      ? {
          type: u8(ValueType[type]),
          array: bool(array !== undefined),
          count: u32(array?.length ?? 1),
        }
      : contents(of)),
    fields: isCompound ? list((nested ?? []).map(node)) : undefined,
  });
}

const isNode = (entry: Numeric | Node): entry is Node => typeof entry === "object";

const limits = (range: Metadata["display"]): Field =>
  range &&
  table(LimitsField, {
    low: f64(numberOf(range[0] ?? NaN)),
    high: f64(numberOf(range[1] ?? NaN)),
  });

function metadata(id: number, of: Metadata): Part {
  return table(MetadataField, {
    id: u32(id),
    type: u8(ValueType[of.type ?? "Unknown"]),
    elementCount: u32(of.elementCount ?? 1),
    units: text(of.units ?? ""),
    precision: i16(of.precision ?? -1),
    choices: list((of.choices ?? []).map(text)),
    display: limits(of.display),
    control: limits(of.control),
    warning: limits(of.warning),
    alarm: limits(of.alarm),
    description: text(of.description ?? ""),
    epoch: u32(of.epoch ?? 0),
    typeId: text(of.typeId ?? ""),
    form: text(of.form ?? ""),
    missingField: text(of.missingField ?? ""),
  });
}

function connection(id: number, of: Connection): Part {
  return table(ConnectionField, {
    id: u32(id),
    state: u8(CONNECTION_STATES[of.state]),
    sinceNs: i64(nanoseconds(of.sinceMs ?? 0)),
    heardNs: i64(nanoseconds(of.heardMs ?? 0)),
    read: bool(of.read ?? true),
    write: bool(of.write ?? true),
    puts: bool(of.puts ?? true),
    writeUnknown: bool(of.writeUnknown ?? false),
  });
}

/** One PV of a frame, with everything that is known of it. */
export interface FramePv {
  readonly id: number;
  readonly sequence: number;
  /** The parts that are sent. */
  readonly sent: Parts;
  /** The last value, for an update that doesn't give one. */
  readonly value: Node | undefined;
  readonly time: Parts["time"];
  readonly alarm: Parts["alarm"];
}

const timeNs = ({ time }: FramePv): bigint =>
  time == null ? 0n : BigInt(time.seconds) * 1_000_000_000n + BigInt(time.nanoseconds);

/** Numbers and integers that a double holds are in columns, everything else in blobs. */
function isColumn({ value }: FramePv): boolean {
  if (value === undefined || value.array !== undefined) return false;
  if (value.type === "Int64" || value.type === "UInt64") {
    return Number.isSafeInteger(Number(value.value));
  }
  return value.type in ELEMENTS;
}

function blob(pv: FramePv): Part {
  const value = pv.value as Node;
  const isStructure = ["Structure", "Union", "Any"].includes(value.type);
  return table(BlobField, {
    id: u32(pv.id),
    timeNs: i64(timeNs(pv)),
    ...(isStructure
      ? {
          type: u8(ValueType.Structure),
          count: u32(1),
          structure: node(value),
          partial: bool(value.partial ?? false),
        }
      : contents(value)),
  });
}

/** A column of zigzag LEB128 differences. */
function differences(values: readonly bigint[]): Part {
  const bytes: number[] = [];
  let before = 0n;
  for (const value of values) {
    const difference = BigInt.asIntN(64, value - before);
    let word = BigInt.asUintN(64, (difference << 1n) ^ (difference >> 63n));
    while (word >= 0x80n) {
      bytes.push(Number(word & 0x7fn) | 0x80);
      word >>= 7n;
    }
    bytes.push(Number(word));
    before = value;
  }
  return vector(Uint8Array.from(bytes), bytes.length, 1);
}

/** A column of rows with the same layout. */
function structs(
  bytes: number,
  rows: readonly ((view: DataView, at: number) => void)[],
): Part | undefined {
  if (rows.length === 0) return undefined;
  const view = new DataView(new ArrayBuffer(bytes * rows.length));
  for (const [index, put] of rows.entries()) put(view, bytes * index);
  return vector(new Uint8Array(view.buffer), rows.length, 4);
}

/** A frame of a kind that is no Update has everything; an Update has what was sent. */
export function frame(
  kind: number,
  tick: bigint,
  prevTick: bigint,
  pvs: readonly FramePv[],
  reply: Fields<typeof FrameField> = {},
): ArrayBuffer {
  const rows = pvs.filter(({ sent, value }) => value !== undefined && isUpdate(sent));
  const columns = rows.filter(isColumn);
  const blobs = rows.filter((pv) => !isColumn(pv));
  const ordered = [...columns, ...blobs];
  const values = Float64Array.from(columns, ({ value }) => Number(value?.value));
  const cause = ordered.map(({ sent }) => Object.keys(sent.skips ?? {})).flat();
  const isUpdateFrame = kind === FrameKind.Update;
  const alarms = ordered.flatMap(({ alarm, sent }, row) =>
    sent.alarm === undefined
      ? []
      : [
          (view: DataView, at: number): void => {
            view.setUint32(at + AlarmRowLayout.row, row, true);
            view.setUint16(at + AlarmRowLayout.status, alarm?.status ?? NO_ALARM_FIELD, true);
            const severity = SEVERITIES.indexOf(alarm?.severity ?? "NO_ALARM");
            view.setUint8(at + AlarmRowLayout.severity, severity);
          },
        ],
  );
  const skips = ordered.flatMap(({ sent }, row) =>
    Object.entries(isUpdateFrame ? (sent.skips ?? {}) : {}).map(
      ([name, count]) =>
        (view: DataView, at: number): void => {
          view.setUint32(at + SkipRowLayout.row, row, true);
          view.setUint32(at + SkipRowLayout.count, count, true);
          view.setUint8(at + SkipRowLayout.cause, CAUSES[name] ?? 0);
        },
    ),
  );
  const details = ordered.flatMap(({ alarm, sent, time }, row) =>
    sent.alarm === undefined && sent.time === undefined
      ? []
      : [
          table(DetailField, {
            row: u32(row),
            userTag: u32((time?.userTag ?? 0) >>> 0),
            message: text(alarm?.message ?? ""),
          }),
        ],
  );
  const sequences = Uint32Array.from(ordered, ({ sequence }) => sequence);
  const readable = pvs.filter(
    ({ sent }) => sent.refused === undefined && sent.missing === undefined,
  );
  return message(
    "PVWF",
    table(FrameField, {
      kind: u8(kind),
      tick: i64(tick),
      prevTick: i64(prevTick),
      metadata: list(
        readable.flatMap(({ id, sent }) => (sent.metadata ? [metadata(id, sent.metadata)] : [])),
      ),
      connections: list(
        readable.flatMap(({ id, sent }) =>
          sent.connection ? [connection(id, sent.connection)] : [],
        ),
      ),
      numbers:
        columns.length === 0
          ? undefined
          : table(NumbersField, {
              count: u32(columns.length),
              ids: differences(columns.map(({ id }) => BigInt(id))),
              baseTimeNs: i64(0n),
              times: differences(columns.map(timeNs)),
              values: vector(new Uint8Array(values.buffer), values.length, 8),
            }),
      blobs: blobs.length === 0 ? undefined : list(blobs.map(blob)),
      alarms: structs(AlarmRowLayout.bytes, alarms),
      details: details.length === 0 ? undefined : list(details),
      skips: structs(SkipRowLayout.bytes, skips),
      skipCause:
        kind === FrameKind.CatchUp ? u8(CAUSES[cause[0] ?? ""] ?? SkipCause.Unknown) : undefined,
      sequences: isUpdateFrame
        ? undefined
        : vector(new Uint8Array(sequences.buffer), sequences.length, 4),
      ...reply,
    }),
  );
}
