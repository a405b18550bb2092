/** Values as cs-web-lib's `DType`, with the same shape and methods. */

import type { NumericArray, PvData, PvRange, Quality } from "../../types.js";

export type AlarmQuality = "valid" | "warning" | "alarm" | "invalid" | "undefined";

const QUALITIES: Readonly<Record<Quality, AlarmQuality>> = {
  VALID: "valid",
  WARNING: "warning",
  ALARM: "alarm",
  INVALID: "invalid",
  UNDEFINED: "undefined",
};

/** `DisplayForm`'s numbers are the indexes of this list. */
const FORMS = ["Default", "String", "Binary", "Decimal", "Hex", "Exponential", "Engineering"];

/** `ChannelRole`. */
const READ_ONLY = 0;
const READ_WRITE = 2;

export interface Range {
  readonly min: number;
  readonly max: number;
}

export interface DisplayData {
  readonly description?: string;
  readonly role?: number;
  readonly controlRange?: Range;
  readonly alarmRange?: Range;
  readonly warningRange?: Range;
  readonly units?: string;
  readonly precision?: number;
  readonly form?: number;
  readonly choices?: string[];
}

export interface ValueData {
  readonly stringValue?: string;
  readonly doubleValue?: number;
  readonly arrayValue?: NumericArray;
  readonly stringArray?: string[];
}

/** A value as cs-web-lib's widgets read it. */
export class CsValue {
  readonly partial = false;

  constructor(
    readonly value: ValueData,
    readonly alarm: { readonly quality: AlarmQuality; readonly message: string },
    readonly time: { readonly datetime: Date } | undefined,
    readonly display: DisplayData,
  ) {}

  getStringValue(): string | undefined {
    const { doubleValue, stringValue } = this.value;
    if (stringValue !== undefined || doubleValue === undefined) return stringValue;
    return this.display.choices?.[doubleValue];
  }

  getDoubleValue(): number | undefined {
    return this.value.doubleValue;
  }

  getArrayValue(): NumericArray | undefined {
    return this.value.arrayValue;
  }

  getStringArrayValue(): string[] | undefined {
    return this.value.stringArray;
  }

  getAlarm(): CsValue["alarm"] {
    return this.alarm;
  }

  getTime(): CsValue["time"] {
    return this.time;
  }

  getDisplay(): DisplayData {
    return this.display;
  }

  toString(): string {
    return this.getStringValue() ?? String(this.value.doubleValue ?? this.value.arrayValue ?? "");
  }
}

/** The whole state of a PV. */
export function valueOf(pv: PvData): CsValue {
  const { quality, message } = pv.status;
  return new CsValue(
    fieldsOf(pv),
    { quality: QUALITIES[quality], message },
    pv.time === null ? undefined : { datetime: new Date(pv.time.datetime) },
    displayOf(pv),
  );
}

function fieldsOf({ display, value }: PvData): ValueData {
  if (value === null) return {};
  const { array, number, string, text } = value;
  if (array !== null) {
    if (!ArrayBuffer.isView(array)) return { stringArray: [...array] as string[] };
    // Text in an array of characters is shown as text if the widget shows text.
    return { arrayValue: array, ...(text !== null && { stringValue: text }) };
  }
  if (text !== null) return { stringValue: text };
  if (number === null) return { stringValue: string };
  // An enum's label and a boolean's word are passed with the number; for other numbers the widget
  // makes the text itself.
  const isWord = display?.choices != null || display?.type === "Boolean";
  return { doubleValue: number, ...(isWord && { stringValue: string }) };
}

function displayOf({ display, status }: PvData): DisplayData {
  const role = status.writable === false ? READ_ONLY : READ_WRITE;
  if (display === null) return { role };
  const { alarmRange, choices, controlRange, description, form, precision, units, warningRange } =
    display;
  const place = FORMS.indexOf(form ?? "");
  return {
    role,
    description,
    units,
    ...(precision !== null && { precision }),
    ...(place >= 0 && { form: place }),
    ...(choices !== null && { choices: [...choices] }),
    ...rangeOf("controlRange", controlRange),
    ...rangeOf("alarmRange", alarmRange),
    ...rangeOf("warningRange", warningRange),
  };
}

/** cs-web-lib has no range with one end: the missing end is the largest possible number. */
function rangeOf(name: string, range: PvRange | null): Readonly<Record<string, Range>> {
  if (range === null) return {};
  return { [name]: { min: range.min ?? -Infinity, max: range.max ?? Infinity } };
}
