/** Values as cs-web-lib's `DType`, with the same shape and methods. */

import type { NumericArray, PvData, PvRange, Quality } from "../../types.js";

/** cs-web-lib's names of the quality of a value. */
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

/** How to draw a value, in cs-web-lib's form. */
export interface DisplayData {
  /** The record's description. */
  readonly description?: string;
  /** 0: the PV can only be read; 2: it can also be written. */
  readonly role?: number;
  /** Control limits. */
  readonly controlRange?: Range;
  /** Alarm limits. */
  readonly alarmRange?: Range;
  /** Warning limits. */
  readonly warningRange?: Range;
  /** Engineering units. */
  readonly units?: string;
  /** Digits after the decimal point. */
  readonly precision?: number;
  /** Index of the form in which a number is shown. */
  readonly form?: number;
  /** Labels of an enum by index. */
  readonly choices?: string[];
}

/** A value in cs-web-lib's form: one of its fields, or a number and its label. */
export interface ValueData {
  /** A text, or an enum's label. */
  readonly stringValue?: string;
  /** A number, or an enum's index. */
  readonly doubleValue?: number;
  /** The elements of a numeric array. */
  readonly arrayValue?: NumericArray;
  /** The elements of an array of strings. */
  readonly stringArray?: string[];
}

/** A value as cs-web-lib's widgets read it. */
export class CsValue {
  /** Values are always complete. */
  readonly partial = false;

  constructor(
    /** The value itself. */
    readonly value: ValueData,
    /** Quality and message of the alarm. */
    readonly alarm: {
      /** How bad it is. */
      readonly quality: AlarmQuality;
      /** What the server says. */
      readonly message: string;
    },
    /** Time stamp of the value; `undefined` where the server gives none. */
    readonly time:
      | {
          /** The time, to a millisecond. */
          readonly datetime: Date;
        }
      | undefined,
    /** How to draw the value. */
    readonly display: DisplayData,
  ) {}

  /** The text, or an enum's label. */
  getStringValue(): string | undefined {
    const { doubleValue, stringValue } = this.value;
    if (stringValue !== undefined || doubleValue === undefined) return stringValue;
    return this.display.choices?.[doubleValue];
  }

  /** The number, or an enum's index. */
  getDoubleValue(): number | undefined {
    return this.value.doubleValue;
  }

  /** The elements of a numeric array. */
  getArrayValue(): NumericArray | undefined {
    return this.value.arrayValue;
  }

  /** The elements of an array of strings. */
  getStringArrayValue(): string[] | undefined {
    return this.value.stringArray;
  }

  /** Quality and message of the alarm. */
  getAlarm(): CsValue["alarm"] {
    return this.alarm;
  }

  /** Time stamp of the value. */
  getTime(): CsValue["time"] {
    return this.time;
  }

  /** How to draw the value. */
  getDisplay(): DisplayData {
    return this.display;
  }

  /** The value as a short text. */
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
