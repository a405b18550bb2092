/** A value as a text widget shows it: format, precision and units of the widget, else of the PV. */

import type { NumericArray, PvDisplay, PvValue } from "../../types.js";
import type { Props } from "./props.js";

/** How a number is shown, in Phoebus's order. */
const FORMATS = [
  "DEFAULT",
  "DECIMAL",
  "EXPONENTIAL",
  "ENGINEERING",
  "HEX",
  "COMPACT",
  "STRING",
  "SEXAGESIMAL",
  "SEXAGESIMAL_HMS",
  "SEXAGESIMAL_DMS",
  "BINARY",
] as const;

type Format = (typeof FORMATS)[number];

export interface ValueFormat {
  readonly format: Format;
  /** Digits; negative: those of the PV. */
  readonly precision: number;
  readonly units: boolean;
}

export function formatOf(props: Props): ValueFormat {
  return {
    format: props.choice("format", FORMATS) as Format,
    precision: Math.min(50, props.integer("precision")),
    units: props.flag("show_units"),
  };
}

type Value = Pick<PvValue, "string" | "number" | "bigint" | "text" | "array">;
type Display = Pick<PvDisplay, "precision" | "units" | "type"> | null;

/** Elements of an array that are shown. */
const MAX_ELEMENTS = 20;

export function valueText(value: Value, display: Display, how: ValueFormat): string {
  const text = plainText(value, display, how);
  const units = display?.units ?? "";
  return how.units && units !== "" && display?.type !== "Enum" ? `${text} ${units}` : text;
}

function plainText(value: Value, display: Display, how: ValueFormat): string {
  const { array, bigint, number, string, text } = value;
  if (text !== null && isText(value)) return text;
  if (array !== null) return arrayText(array, display, how);
  if (number === null || how.format === "STRING" || display?.type === "Boolean") return string;
  if (display?.type === "Enum") return how.format === "DEFAULT" ? string : String(number);
  if (!Number.isFinite(number)) return String(number);
  // The relay's text has the PV's digits, or all digits without a precision.
  const isOfPv = how.precision < 0 && (how.format === "DEFAULT" || how.format === "DECIMAL");
  return isOfPv ? string : numberText(bigint ?? number, display, how);
}

/** Whether a value is a text, and not an array of bytes, of which the client has the characters too. */
export const isText = ({ array, string, text }: Partial<Value>): boolean =>
  text != null && (array == null || string === text);

/** Whether an array has characters of one byte. */
export const isBytes = (array: PvValue["array"] | undefined): array is NumericArray =>
  ArrayBuffer.isView(array) && array.BYTES_PER_ELEMENT === 1;

function arrayText(array: NonNullable<Value["array"]>, display: Display, how: ValueFormat): string {
  if (how.format === "STRING" && isBytes(array)) {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    const end = bytes.indexOf(0);
    return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
  }
  const shown = Array.from(
    { length: Math.min(array.length, MAX_ELEMENTS) },
    (_, at) => array[at] as number | bigint | string,
  ).map((each) => (typeof each === "string" ? each : numberText(each, display, how)));
  const more = array.length > MAX_ELEMENTS ? `, … (${String(array.length)})` : "";
  return `[${shown.join(", ")}${more}]`;
}

export function numberText(value: number | bigint, display: Display, how: ValueFormat): string {
  const { format } = how;
  const number = Number(value);
  if (!Number.isFinite(number)) return String(number);
  if (format === "HEX" || format === "BINARY") {
    return bitsText(value, { bits: format === "HEX" ? bitsOf(display?.type) : 64, how });
  }
  const given = how.precision < 0 ? display?.precision : how.precision;
  if (given == null && ALL_DIGITS.has(format)) {
    return shortest(display?.type === "Float32" ? ofSingle(number) : value, format);
  }
  const own = Number.isInteger(number) ? 0 : 3;
  const digits = Math.max(0, Math.min(50, given ?? own));
  switch (format) {
    case "EXPONENTIAL":
      return exponential(number, digits);
    case "ENGINEERING": {
      const exponent = number === 0 ? 0 : Math.floor(Math.log10(Math.abs(number)) / 3) * 3;
      return `${(number / 10 ** exponent).toFixed(digits)}E${String(exponent)}`;
    }
    case "COMPACT":
      return isPlain(number) ? number.toFixed(digits) : exponential(number, digits);
    case "SEXAGESIMAL":
      return sexagesimal(number, digits);
    case "SEXAGESIMAL_HMS":
      return sexagesimal((number * 12) / Math.PI, digits);
    case "SEXAGESIMAL_DMS":
      return sexagesimal((number * 180) / Math.PI, digits);
    default:
      return typeof value === "bigint" && how.precision <= 0
        ? String(value)
        : fixed(number, digits);
  }
}

/** Formats that round nothing without a precision, as the relay's texts of scalars. */
const ALL_DIGITS: ReadonlySet<Format> = new Set(["DEFAULT", "DECIMAL", "COMPACT"]);

function shortest(value: number | bigint, format: Format): string {
  const number = Number(value);
  return format === "COMPACT" && !isPlain(number) ? exponential(number) : String(value);
}

/** The number with the fewest digits that is this one in 32 bits. */
function ofSingle(single: number): number {
  const all = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((digits) => Number(single.toPrecision(digits)));
  return all.find((short) => Math.fround(short) === single) ?? single;
}

/** Whether a number is readable without an exponent. */
function isPlain(number: number): boolean {
  const size = Math.abs(number);
  return size === 0 || (size >= 0.0001 && size <= 10_000);
}

/** Numbers beyond this have no digits after the point. */
const fixed = (number: number, digits: number): string =>
  Math.abs(number) < 1e21 ? number.toFixed(digits) : String(number);

const exponential = (number: number, digits?: number): string =>
  number.toExponential(digits).replace("e", "E").replace("E+", "E");

/** How many bits a negative integer of a type has in HEX. In BINARY all have 64. */
export const bitsOf = (type: string | undefined): number =>
  Number(/^Int(8|16|32)$/.exec(type ?? "")?.[1] ?? 64);

interface Bits {
  readonly bits: number;
  readonly how: ValueFormat;
}

function bitsText(value: number | bigint, { bits, how: { format, precision } }: Bits): string {
  const integer = typeof value === "bigint" ? value : BigInt(Math.trunc(value));
  const radix = format === "HEX" ? 16 : 2;
  const least = integer < 0n ? BigInt.asUintN(bits, integer) : integer;
  const digits = least.toString(radix).toUpperCase().padStart(Math.max(0, precision), "0");
  return (format === "HEX" ? "0x" : "0b") + digits;
}

function sexagesimal(number: number, digits: number): string {
  const after = Math.max(0, digits - 4);
  const scale = 10 ** after;
  const total = Math.round(Math.abs(number) * 3600 * scale);
  const seconds = ((total % (60 * scale)) / scale).toFixed(after);
  const minutes = Math.floor(total / (60 * scale)) % 60;
  const whole = Math.floor(total / (3600 * scale));
  const sign = number < 0 ? "-" : "";
  const padded = after > 0 ? seconds.padStart(3 + after, "0") : seconds.padStart(2, "0");
  return `${sign}${String(whole)}:${String(minutes).padStart(2, "0")}:${padded}`;
}
