/** How is an image decoded that an area detector's codec plugin has encoded? */

import type { NumericArray, PvStructure } from "../types.js";
import { codecOf, pictureOf, type Picture } from "./pixels.js";

/** The picture of an encoded NTNDArray. Rejects with a sentence for a person. */
export async function decodeImage(structure: PvStructure): Promise<Picture> {
  const codec = codecOf(structure);
  const bytes = bytesOf(structure);
  switch (codec) {
    case "jpeg":
      return decodeJpeg(bytes);
    case "lz4": {
      const size = Number(structure.uncompressedSize ?? 0);
      const elements = elementsOf(decodeLz4(bytes, size), structure);
      const picture = pictureOf({ ...structure, value: elements }, null, undefined);
      if (picture === undefined)
        throw new Error("The image has fewer elements than its dimensions");
      return picture;
    }
    default:
      throw new Error(
        `Codec ${codec} isn't supported: choose jpeg, lz4 or none in the detector's codec plugin`,
      );
  }
}

/** The encoded bytes; the array that holds them may be longer. */
function bytesOf({ compressedSize, value }: PvStructure): Uint8Array<ArrayBuffer> {
  const held = (value as { value?: unknown } | null)?.value ?? value;
  if (!ArrayBuffer.isView(held)) throw new Error("The image holds no bytes");
  const length = Number(compressedSize ?? 0);
  return new Uint8Array(
    held.buffer as ArrayBuffer,
    held.byteOffset,
    length > 0 && length < held.byteLength ? length : held.byteLength,
  );
}

async function decodeJpeg(bytes: Uint8Array<ArrayBuffer>): Promise<Picture> {
  const image = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" })).catch(() => {
    throw new Error("The image says that it is a JPEG and can't be read as one");
  });
  const { height, width } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  if (context === null) throw new Error("This browser gives no canvas to decode on");
  context.drawImage(image, 0, 0);
  image.close();
  const { data } = context.getImageData(0, 0, width, height);
  const elements = new Uint8Array(3 * width * height);
  for (let from = 0, to = 0; to < elements.length; from += 4, to += 3) {
    elements[to] = data[from] as number;
    elements[to + 1] = data[from + 1] as number;
    elements[to + 2] = data[from + 2] as number;
  }
  return { width, height, elements, order: "rgb1" };
}

const DAMAGED = "The image's lz4 bytes are damaged";

/** A block of LZ4 without a frame around it, as `LZ4_compress_default` makes it. */
export function decodeLz4(bytes: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(size);
  let from = 0;
  let to = 0;
  /** Adds bytes to a length of 15 until one isn't 255. */
  const lengthened = (length: number): number => {
    if (length < 15) return length;
    let more: number;
    do {
      if (from >= bytes.length) throw new Error(DAMAGED);
      more = bytes[from++] as number;
      length += more;
    } while (more === 255);
    return length;
  };
  while (from < bytes.length) {
    const token = bytes[from++] as number;
    const literals = lengthened(token >> 4);
    if (from + literals > bytes.length || to + literals > size) throw new Error(DAMAGED);
    out.set(bytes.subarray(from, from + literals), to);
    from += literals;
    to += literals;
    // The last sequence has literals only.
    if (from === bytes.length) break;
    if (from + 2 > bytes.length) throw new Error(DAMAGED);
    const distance = (bytes[from] as number) | ((bytes[from + 1] as number) << 8);
    from += 2;
    const length = lengthened(token & 15) + 4;
    if (distance === 0 || distance > to || to + length > size) throw new Error(DAMAGED);
    if (distance >= length) out.copyWithin(to, to - distance, to - distance + length);
    else for (let at = to; at < to + length; at += 1) out[at] = out[at - distance] as number;
    to += length;
  }
  if (to !== size) throw new Error(DAMAGED);
  return out;
}

type Elements = (new (buffer: ArrayBuffer) => NumericArray) & {
  readonly BYTES_PER_ELEMENT: number;
};

/** By pvData's ScalarType, which areaDetector puts in `codec.parameters`. */
const SCALAR_TYPES: readonly (Elements | undefined)[] = [
  undefined,
  Int8Array,
  Int16Array,
  Int32Array,
  BigInt64Array,
  Uint8Array,
  Uint16Array,
  Uint32Array,
  BigUint64Array,
  Float32Array,
  Float64Array,
];

/** By areaDetector's NDDataType, which some of its servers put there. */
const ND_TYPES: readonly Elements[] = [
  Int8Array,
  Uint8Array,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
  Float32Array,
  Float64Array,
];

/** Bytes as what they were before: the server says it, and the size of an element confirms it. */
function elementsOf(bytes: Uint8Array<ArrayBuffer>, structure: PvStructure): NumericArray {
  const { parameters } = structure.codec as { parameters?: unknown };
  const count = ((structure.dimension ?? []) as readonly PvStructure[]).reduce(
    (product, { size }) => product * Number(size),
    1,
  );
  const said = Number(parameters ?? NaN);
  const type = [SCALAR_TYPES[said], ND_TYPES[said], Uint8Array, Uint16Array, Uint32Array].find(
    (type) => type?.BYTES_PER_ELEMENT === bytes.length / count,
  );
  if (type === undefined) throw new Error("The image doesn't say of which type its elements were");
  return new type(bytes.buffer);
}
