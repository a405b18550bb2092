/** Fields of GraphQL that differ from a PV's own fields in form, or have no counterpart there. */

import type { Columns } from "../store/core.js";
import { mutable, type MakeReader, type Reader } from "../pv/fields.js";
import { formatNumber } from "../store/format.js";
import { isUnion } from "../store/node.js";
import { isFields, Kind, type Slot } from "../store/slot.js";
import type { NumericArray, PvDisplay, PvField, PvStructure } from "../types.js";
import { first, isNumeric, numberType, toBase64, type Base64Array } from "./base64.js";
import { projection, readArguments } from "./project.js";

interface Length {
  readonly length: number;
}

const READ = 1;

const CONNECTING = 0;
const CONNECTED = 2;

/** Whether a newly requested PV has enough data to show. */
export const settled: Reader = ({ index }, { access, kind, state }) => {
  if (kind[index] !== Kind.none) return true;
  if (state[index] === CONNECTING) return false;
  // A value follows, unless the PV may not be read.
  return state[index] !== CONNECTED || ((access[index] as number) & READ) === 0;
};

/** The elements of an array PV, strings or numbers. */
function elements(slot: Slot, columns: Columns): NumericArray | readonly string[] | undefined {
  switch (columns.kind[slot.index]) {
    case Kind.array:
      return slot.array();
    case Kind.textArray:
      return slot.texts(columns);
    default:
      return undefined;
  }
}

const isStrings = (array: unknown): array is readonly string[] =>
  Array.isArray(array) && array.every((element) => typeof element === "string");

/** Whether it is a structure: the fields of a union are its choice and its value. */
const isStructure = (field: PvField | undefined): field is PvStructure =>
  isFields(field) && !isUnion(field);

function base64Of(array: unknown, { length }: Length): Base64Array | null {
  return isNumeric(array) ? toBase64(first(array, length)) : null;
}

/** Each element as displayed to an operator. */
function stringsOf(
  array: NumericArray | readonly string[],
  length: number,
  { choices, precision, type }: Pick<PvDisplay, "choices" | "precision" | "type">,
): readonly string[] {
  const some = first(array, length);
  if (isStrings(some)) return some;
  return Array.from(some as Iterable<number | bigint>, (element) => {
    if (typeof element === "bigint") return String(element);
    return choices?.[element] ?? formatNumber(element, precision, type);
  });
}

/** The fields of a structure of this normative type. */
function structureOf(slot: Slot, columns: Columns, type: string): PvStructure | undefined {
  const isIt = slot.metadata(columns).typeId.startsWith(`epics:nt/${type}:`);
  const structure = columns.kind[slot.index] === Kind.structure ? slot.structure() : null;
  return isIt && isStructure(structure) ? structure : undefined;
}

const textOf = (field: PvField | undefined): string => (typeof field === "string" ? field : "");

/** The shortest text that JavaScript writes; null for values that are not scalars. */
const scalarText = (field: PvField | undefined): string | null =>
  field === null || field === undefined || typeof field === "object" ? null : String(field);

function table(slot: Slot, columns: Columns): unknown {
  const structure = structureOf(slot, columns, "NTTable");
  if (structure === undefined) return null;
  const { labels, value } = structure;
  const names = isStrings(labels) ? labels : [];
  return {
    labels: names,
    columns: Object.entries(isStructure(value) ? value : {}).map(([name, array], at) => ({
      name,
      label: names[at] ?? name,
      array: isNumeric(array) || isStrings(array) ? array : null,
      stringArray: ({ length }: Length) => {
        if (isStrings(array)) return first(array, length);
        return isNumeric(array)
          ? Array.from(first(array, length) as Iterable<unknown>, String)
          : null;
      },
      base64Array: (args: Length) => base64Of(array, args),
    })),
  };
}

function ndArray(slot: Slot, columns: Columns): unknown {
  const structure = structureOf(slot, columns, "NTNDArray");
  if (structure === undefined) return null;
  const { attribute, codec, dimension, uniqueId, value } = structure;
  const samples = isFields(value) ? value.value : undefined;
  const array = isNumeric(samples) ? samples : null;
  const structures = (field: PvField | undefined): PvStructure[] =>
    Array.isArray(field) ? (field as readonly PvField[]).filter(isStructure) : [];
  return {
    uniqueId: typeof uniqueId === "number" ? uniqueId : null,
    dimensions: structures(dimension).map(({ size }) => Number(size)),
    codec: isStructure(codec) ? textOf(codec.name) : "",
    numberType: array === null ? null : numberType(array),
    array,
    base64Array: (args: Length) => base64Of(array, args),
    attributes: structures(attribute).map(({ descriptor, name, value: held }) => ({
      name: textOf(name),
      value: scalarText(held),
      description: textOf(descriptor),
    })),
  };
}

/** Objects that are not in the columns. */
const OBJECTS: Readonly<Record<string, (slot: Slot, columns: Columns, args: Length) => unknown>> = {
  "value.base64Array": (slot, columns, args) => base64Of(elements(slot, columns), args),
  "value.table": table,
  "value.ndArray": ndArray,
};

/** Values that are not in the columns, and those whose form differs in Coniql. */
const LEAVES: Readonly<Record<string, (slot: Slot, columns: Columns, args: Length) => unknown>> = {
  "value.stringArray": (slot, columns, { length }) => {
    const array = elements(slot, columns);
    return array === undefined ? null : stringsOf(array, length, slot.metadata(columns));
  },
  "value.float64Array": (slot, columns, { length }) => {
    const array = elements(slot, columns);
    if (!isNumeric(array)) return null;
    const some = first(array, length);
    return some instanceof Float64Array
      ? some
      : Float64Array.from(some as Iterable<number>, Number);
  },
  "display.units": (slot, columns) => {
    const { type, units } = slot.metadata(columns);
    return type === "Enum" || type === "String" ? null : units;
  },
  "display.form": (slot, columns) => slot.metadata(columns).form?.toUpperCase() ?? null,
  "display.role": (slot, columns) => {
    if (mutable(slot, columns) === false) return "RO";
    return ((columns.access[slot.index] as number) & READ) === 0 ? "WO" : "RW";
  },
  "display.widget": (slot, columns) =>
    mutable(slot, columns) === false ? "TEXTUPDATE" : "TEXTINPUT",
};

export const makeReader: MakeReader = (path, [sign, , , , ...args], lines) => {
  const isObject = sign === "{";
  const read = (isObject ? OBJECTS : LEAVES)[path];
  if (read === undefined) return undefined;
  const given = readArguments(args.join(" ")) as Length;
  const reader: Reader = (slot, columns) => read(slot, columns, given);
  if (!isObject) return reader;
  const show = projection(lines);
  return (slot, columns) => show(reader(slot, columns));
};
