/** What an operator typed or an action says, as the PV takes it. */

import type { PutValue, PvDisplay, PvValue } from "../../types.js";
import { bitsOf, isBytes, isText, type ValueFormat } from "./format.js";

type Format = ValueFormat["format"];

/** Of a PV, what decides how a text is read. */
export interface TypedPv {
  readonly value: (Pick<PvValue, "text" | "array"> & Partial<Pick<PvValue, "string">>) | null;
  readonly display: Pick<PvDisplay, "type" | "units" | "choices"> | null;
}

/** A text as the PV takes it, read in the widget's format. */
export function typedValue(text: string, pv: TypedPv | undefined, format: Format): PutValue {
  const { choices, type, units = "" } = pv?.display ?? {};
  if (type === "String" || isText(pv?.value ?? {})) return text;
  const hasUnits = units !== "" && text.trim().endsWith(units);
  const plain = hasUnits ? text.slice(0, text.lastIndexOf(units)) : text;
  // An array of characters that is shown as a text takes one.
  if (format === "STRING" && isBytes(pv?.value?.array)) return text;
  if (pv?.value?.array != null) return typedArray(plain, type, format);
  if (type === "Enum") return valueToPut(text, { type, choices });
  // Units may be digits of a number too, such as the A of 0x1A.
  return typedNumber(text, format, type) ?? typedNumber(plain, format, type) ?? plain;
}

function typedArray(text: string, type: string | undefined, format: Format): PutValue {
  const parts = text
    .replace(/^\s*\[|\]\s*$/g, "")
    .split(/[,\s]+/)
    .filter(Boolean);
  const numbers: (number | bigint)[] = [];
  for (const part of parts) {
    const number = typedNumber(part, format, type);
    if (number === undefined) return parts;
    numbers.push(number);
  }
  const plain = numbers.filter((number) => typeof number === "number");
  if (plain.length === numbers.length) return plain;
  // Elements of an array are of one kind.
  return plain.every(Number.isInteger) ? numbers.map(BigInt) : parts;
}

/** An enum's value by its label, else by its index; other PVs take the text. */
export function valueToPut(
  text: string,
  display: {
    readonly type?: string | undefined;
    readonly choices?: PvDisplay["choices"] | undefined;
  } | null,
): string | number {
  if (display?.type !== "Enum") return text;
  const { choices } = display;
  const exact = choices?.indexOf(text) ?? -1;
  const plain = text.trim();
  const index = exact < 0 ? (choices?.indexOf(plain) ?? -1) : exact;
  if (index >= 0) return index;
  const isNumber = plain !== "" && !Number.isNaN(Number(plain));
  return isNumber ? Number(plain) : text;
}

/**
 * A text as a number of the widget's format; `undefined` if it isn't one. A `bigint` only for PVs of
 * 64-bit integers, and only if a number would be rounded.
 */
export function typedNumber(
  text: string,
  format: Format = "DEFAULT",
  type?: string,
): number | bigint | undefined {
  const plain = text.trim();
  const integer = integerIn(plain, format);
  if (integer !== undefined) return exactly(signed(integer, plain, format, type), type);
  if (format.startsWith("SEXAGESIMAL")) {
    const number = sexagesimalNumber(plain);
    if (number === undefined) return undefined;
    if (format === "SEXAGESIMAL_HMS") return (number * Math.PI) / 12;
    return format === "SEXAGESIMAL_DMS" ? (number * Math.PI) / 180 : number;
  }
  const number = Number(plain);
  return plain === "" || Number.isNaN(number) ? undefined : number;
}

const RADICES: Readonly<Record<string, string>> = { HEX: "0x", BINARY: "0b" };

/** A whole number; in the formats HEX and BINARY its digits need no prefix. */
function integerIn(plain: string, format: Format): bigint | undefined {
  const [, sign = "", digits = ""] = /^([+-]?)(.*)$/.exec(plain.toLowerCase()) ?? [];
  const own = RADICES[format] ?? "";
  const isOwn = format === "HEX" ? /^[\da-f]+$/ : /^[01]+$/;
  const isPrefixed = /^0x[\da-f]+$|^0b[01]+$/.test(digits);
  // In HEX the digits 0b1 are a number of their own: 0xB1.
  const written =
    own !== "" && isOwn.test(digits) && !(format === "BINARY" && isPrefixed)
      ? own + digits
      : digits;
  const isSexagesimal = format.startsWith("SEXAGESIMAL");
  if (!/^0x[\da-f]+$|^0b[01]+$/.test(written) && (isSexagesimal || !/^\d+$/.test(written))) {
    return undefined;
  }
  return sign === "-" ? -BigInt(written) : BigInt(written);
}

/** Negative integers are shown in HEX in the bits of their type, in BINARY in 64, and read back so. */
function signed(integer: bigint, plain: string, format: Format, type: string | undefined): bigint {
  if (type === "UInt64" || plain.startsWith("-")) return integer;
  const widths = format === "HEX" ? [bitsOf(type), 64] : format === "BINARY" ? [64] : [];
  const width = widths.find((bits) => integer >> BigInt(bits - 1) === 1n);
  return width === undefined ? integer : BigInt.asIntN(width, integer);
}

function exactly(integer: bigint, type: string | undefined): number | bigint {
  const number = Number(integer);
  const isWide = type === "Int64" || type === "UInt64";
  return isWide && !Number.isSafeInteger(number) ? integer : number;
}

/** Degrees or hours, with minutes and seconds after colons. */
function sexagesimalNumber(plain: string): number | undefined {
  const [, sign, whole, minutes = "0", seconds = "0"] =
    /^([+-]?)(\d+(?:\.\d+)?)(?::(\d{1,2}(?:\.\d+)?))?(?::(\d{1,2}(?:\.\d+)?))?$/.exec(plain) ?? [];
  const [m, s] = [Number(minutes), Number(seconds)];
  if (whole === undefined || m >= 60 || s >= 60) return undefined;
  const size = Number(whole) + m / 60 + s / 3600;
  return sign === "-" ? -size : size;
}
