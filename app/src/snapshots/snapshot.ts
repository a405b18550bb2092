/** A snapshot: the values of a list of PVs at one moment, each exactly, with its alarm and time. */

import {
  t,
  type PvClient,
  type PvConnection,
  type PvConnectionState,
  type PvData,
  type PvDisplay,
  type PvType,
  type PvValue,
  type Severity,
} from "pvwire";

export type Scalar = number | bigint | string;

/** Texts are strings, integers beyond 2^53 are `bigint`, an enum is its index. */
export type SavedValue = Scalar | readonly Scalar[];

export interface SavedPv {
  readonly name: string;
  /** `undefined` if the PV had none; `missing` then says why. */
  readonly value: SavedValue | undefined;
  readonly missing: string;
  readonly type: PvType;
  /** The labels of an enum. */
  readonly choices: readonly string[] | undefined;
  /** The value as operators read it. */
  readonly text: string;
  readonly severity: Severity | null;
  readonly status: string | null;
  /** Whole seconds past 1970 of the value's time stamp; 0 without one. */
  readonly seconds: number;
  readonly nanoseconds: number;
  /** How far a value may be from this one: a number, or a part such as `1%`. Empty: not at all. */
  readonly tolerance: string;
  /** The file says that it is not to be written. */
  readonly readOnly?: boolean;
}

export interface Snapshot {
  readonly id: string;
  readonly title: string;
  readonly comment: string;
  /** Milliseconds past 1970 of the moment whose values it has. */
  readonly takenMs: number;
  readonly pvs: readonly SavedPv[];
}

type Labelled = Pick<SavedPv, "choices" | "value">;

/** The label of an enum's index; choices may have been renumbered since. */
export function labelOf({ choices, value }: Labelled): string | undefined {
  return typeof value === "number" ? choices?.[value] : undefined;
}

/** Whether a choice is the only one with its label. */
export const isUnique = (label: string, choices: readonly string[]): boolean =>
  choices.indexOf(label) === choices.lastIndexOf(label);

/** Elements of an array that are shown. */
const SHOWN = 10;

/** The text of a saved value, from the value alone: it is what a restore writes. */
export function textOf(pv: Labelled): string {
  const { value = "" } = pv;
  if (typeof value !== "object") return labelOf(pv) ?? String(value);
  const elements = value.map((each) => (typeof each === "string" ? JSON.stringify(each) : each));
  const first = elements.slice(0, SHOWN).join(", ");
  const rest = value.length > SHOWN ? t`, … ${String(value.length)} elements` : "";
  return `[${first}${rest}]`;
}

/** What is read of a PV for a snapshot, and to judge whether it can be written. */
export const FULL = `{
  value { string(units: true) number exact text array }
  time { seconds nanoseconds }
  status { severity alarmStatus mutable writable }
  display { type typeId form units precision choices controlRange { min max } }
  connection { state connected unresponsive readable reason }
}`;

export interface FullData {
  readonly value: Pick<PvValue, "string" | "number" | "exact" | "text" | "array"> | null;
  readonly time: { readonly seconds: number; readonly nanoseconds: number } | null;
  readonly status: Pick<PvData["status"], "severity" | "alarmStatus" | "mutable" | "writable">;
  readonly display:
    | (Pick<PvDisplay, "type" | "typeId" | "form" | "choices" | "controlRange"> &
        Partial<Pick<PvDisplay, "units" | "precision">>)
    | null;
  readonly connection: Pick<
    PvConnection,
    "state" | "connected" | "unresponsive" | "readable" | "reason"
  >;
}

/** Reads what is known of a PV now, for PVs that the page follows. */
export const readerOf =
  (client: PvClient) =>
  (name: string): FullData | undefined =>
    client.pv<FullData>(name, FULL).getSnapshot();

/** Longer arrays are no settings, and a browser keeps few of them. */
export const MAX_ELEMENTS = 100_000;

const NO_VALUE = {
  value: undefined,
  type: "Unknown",
  choices: undefined,
  text: "",
  severity: null,
  status: null,
  seconds: 0,
  nanoseconds: 0,
  tolerance: "",
} as const;

export const missingPv = (name: string, missing: string): SavedPv => ({
  ...NO_VALUE,
  name,
  missing,
});

const stateText = (state: PvConnectionState): string =>
  ({
    connecting: t`searched`,
    notFound: t`not found`,
    connected: t`no value yet`,
    disconnected: t`disconnected`,
    relayLost: t`the relay is lost`,
    refused: t`refused by the relay`,
  })[state];

/** Why a PV has no present value. */
export function absenceOf(data: FullData | undefined): string {
  if (data === undefined) return stateText("connecting");
  const { connection, display, value } = data;
  if (!connection.connected) {
    const { reason } = connection;
    const text = stateText(connection.state);
    return reason === null ? text : `${text}: ${reason}`;
  }
  if (connection.unresponsive) return t`the server doesn't respond`;
  if (!connection.readable) return t`no read access at the IOC`;
  if (value === null) return connection.reason ?? stateText("connected");
  if (display !== null && /^(?:Structure|Union|Any)$/.test(display.type)) {
    return t`a structure (${display.typeId}): snapshots have numbers, texts, choices and arrays`;
  }
  return "";
}

const integer = (whole: bigint): Scalar =>
  Number.isSafeInteger(Number(whole)) ? Number(whole) : whole;

/**
 * The text of a value that is one; `null` for others. An array of characters is one where `value.string` shows it as
 * one: by its form, or because the name ends with `$`. All others are arrays of numbers.
 */
export function textIn(name: string, { display, value }: FullData): string | null {
  const isText = value?.array === null || display?.form === "String" || name.endsWith("$");
  return isText ? (value?.text ?? null) : null;
}

function valueOf(name: string, data: FullData): SavedValue | undefined {
  const text = textIn(name, data);
  if (text !== null) return text;
  const { array = null, exact = null, number = null } = data.value ?? {};
  if (array !== null) {
    if (array.length > MAX_ELEMENTS) return undefined;
    const elements = [...(array as Iterable<Scalar>)];
    return elements.map((each) => (typeof each === "bigint" ? integer(each) : each));
  }
  return exact !== null ? integer(BigInt(exact)) : (number ?? undefined);
}

/** The same data gives the same object: a page reads many PVs often. */
const known = new WeakMap<FullData, SavedPv>();

export function savedOf(name: string, data: FullData | undefined): SavedPv {
  const before = data === undefined ? undefined : known.get(data);
  if (before?.name === name) return before;
  const saved = readSaved(name, data);
  if (data !== undefined) known.set(data, saved);
  return saved;
}

function readSaved(name: string, data: FullData | undefined): SavedPv {
  const missing = absenceOf(data);
  if (missing !== "" || data?.value == null) return missingPv(name, missing);
  const { display, status, time } = data;
  const value = valueOf(name, data);
  if (value === undefined) {
    return missingPv(name, t`not taken: more than ${String(MAX_ELEMENTS)} elements`);
  }
  return {
    name,
    value,
    missing,
    type: display?.type ?? "Unknown",
    choices: display?.choices ?? undefined,
    text: data.value.string,
    severity: status.severity,
    status: status.alarmStatus,
    seconds: time === null ? 0 : Math.round(time.seconds - time.nanoseconds / 1e9),
    nanoseconds: time?.nanoseconds ?? 0,
    tolerance: "",
  };
}

export const newId = (): string =>
  `${Date.now().toString(36)}-${Math.floor(Math.random() * 36 ** 6).toString(36)}`;
