/** Which picture a PV's type has. */

import type { PvDisplay } from "pvwire";

export type Kind = "number" | "waveform" | "image" | "table";

/** `undefined` for types without a picture, and until the type is known. */
export function kindOf(
  display: Pick<PvDisplay, "type" | "typeId" | "elementCount"> | null,
  text: string | null,
): Kind | undefined {
  if (display === null) return undefined;
  const { elementCount, type, typeId } = display;
  if (typeId.startsWith("epics:nt/NTNDArray")) return "image";
  if (typeId.startsWith("epics:nt/NTTable")) return "table";
  // A text in an array of characters.
  if (text !== null || /^(?:Unknown|String|Structure|Union|Any)$/.test(type)) return undefined;
  // 0: an array of pvAccess, which has no most elements.
  return elementCount === 1 ? "number" : "waveform";
}

/** A value that is a text, and not an array of bytes, of which the client has the characters too. */
export const textOf = (
  value: { readonly string: string; readonly text: string | null } | null | undefined,
): string | null => (value != null && value.string === value.text ? value.text : null);
