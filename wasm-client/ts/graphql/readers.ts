/** Objects of GraphQL that are made from an array or a structure. */

import type { MakeReader } from "../pv/plan.js";
import { isFields, isUnion } from "../store/node.js";
import type { Slot } from "../store/slot.js";
import type { PvField, PvStructure } from "../types.js";
import { first, isNumeric, numberType, toBase64, type Base64Array } from "./base64.js";
import { projection, readArguments } from "./project.js";

interface Length {
  readonly length: number;
}

const isStrings = (array: unknown): array is readonly string[] =>
  Array.isArray(array) && array.every((element) => typeof element === "string");

/** Whether it is a structure: the fields of a union are its choice and its value. */
const isStructure = (field: PvField | undefined): field is PvStructure =>
  isFields(field) && !isUnion(field);

function base64Of(array: unknown, { length }: Length): Base64Array | null {
  return isNumeric(array) ? toBase64(first(array, length)) : null;
}

const textOf = (field: PvField | undefined): string => (typeof field === "string" ? field : "");

/** The shortest text that JavaScript writes; null for values that are not scalars. */
const scalarText = (field: PvField | undefined): string | null =>
  field === null || field === undefined || typeof field === "object" ? null : String(field);

function table(slot: Slot): unknown {
  const structure = slot.structure();
  if (!isStructure(structure)) return null;
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

function ndArray(slot: Slot): unknown {
  const structure = slot.structure();
  if (!isStructure(structure)) return null;
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

/** By path. The engine says whether the slot has such an object. */
const OBJECTS: Readonly<Record<string, (slot: Slot, args: Length) => unknown>> = {
  "value.base64Array": (slot, args) => base64Of(slot.array(), args),
  "value.table": table,
  "value.ndArray": ndArray,
};

export const makeReader: MakeReader = (path, [sign, , , , ...args], lines) => {
  const read = sign === "{" ? OBJECTS[path] : undefined;
  if (read === undefined) return undefined;
  const given = readArguments(args.join(" ")) as Length;
  const show = projection(lines);
  return (slot, results) => (results.isMissing() ? null : show(read(slot, given)));
};
