/** Decodes images that were encoded by area detector's codec plugin. */

import type { NumericArray, PvStructure } from "../types.js";
import { decodeBitshuffle } from "./bitshuffle.js";
import { decodeLz4 } from "./lz4.js";
import { codecOf, pictureOf, type Picture } from "./pixels.js";

/** Maximum size of a relay's message, and so of an image before it was encoded. */
const MAX_IMAGE_BYTES = 2 ** 28;

/** The picture of an encoded NTNDArray. Rejects with a message for operators. */
export async function decodeImage(structure: PvStructure): Promise<Picture> {
  const codec = codecOf(structure);
  if (codec === "jpeg") return decodeJpeg(bytesOf(structure));
  // The name of a codec comes from the IOC and may be anything, for example `constructor`.
  const decode = Object.hasOwn(DECODERS, codec) ? DECODERS[codec] : undefined;
  if (decode === undefined) {
    throw new Error(
      `Codec ${codec} isn't supported: choose jpeg, lz4, bslz4, blosc or none in the detector's codec plugin`,
    );
  }
  const size = Number(structure.uncompressedSize ?? 0);
  if (!(size <= MAX_IMAGE_BYTES)) {
    throw new Error(`The image says that it has ${String(size)} bytes: too many to decode`);
  }
  const decoded = await decode(bytesOf(structure), size, size / countOf(structure));
  const picture = pictureOf(
    { ...structure, value: elementsOf(decoded, structure) },
    null,
    undefined,
  );
  if (picture === undefined) throw new Error("The image has fewer elements than its dimensions");
  return picture;
}

/** Decodes bytes to `size` bytes of elements of `elementBytes` bytes. */
type Decode = (
  bytes: Uint8Array<ArrayBuffer>,
  size: number,
  elementBytes: number,
) => Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>>;

const DECODERS: Readonly<Partial<Record<string, Decode>>> = {
  lz4: decodeLz4,
  bslz4: decodeBitshuffle,
  blosc: decodeBlosc,
};

/** The encoded bytes; their array may be longer. */
function bytesOf({ compressedSize, value }: PvStructure): Uint8Array<ArrayBuffer> {
  const bytes = (value as { value?: unknown } | null)?.value ?? value;
  if (!ArrayBuffer.isView(bytes)) throw new Error("The image holds no bytes");
  const length = Number(compressedSize ?? 0);
  return new Uint8Array(
    bytes.buffer as ArrayBuffer,
    bytes.byteOffset,
    length > 0 && length < bytes.byteLength ? length : bytes.byteLength,
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

/** Blosc's header is checked before memory is allocated. */
const BLOSC_HEADER_BYTES = 16;

async function decodeBlosc(
  bytes: Uint8Array<ArrayBuffer>,
  size: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isWhole =
    bytes.length >= BLOSC_HEADER_BYTES &&
    view.getUint32(4, true) === size &&
    view.getUint32(12, true) <= bytes.length;
  const { default: Blosc } = await import("numcodecs/blosc").catch((error: unknown) => {
    throw new Error("The package numcodecs, which decodes blosc, can't be loaded", {
      cause: error,
    });
  });
  const damaged = new Error("The image's blosc bytes are damaged");
  if (!isWhole) throw damaged;
  const block = bytes.subarray(0, view.getUint32(12, true));
  let decoded: Uint8Array;
  try {
    decoded = await Blosc.fromConfig({ id: "blosc" }).decode(block);
  } catch {
    throw damaged;
  }
  if (decoded.length !== size) throw damaged;
  return decoded as Uint8Array<ArrayBuffer>;
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

/** In the order of areaDetector's NDDataType, which some of its servers use there. */
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

/** The number of elements according to the image's dimensions. */
function countOf({ dimension }: PvStructure): number {
  return ((dimension ?? []) as readonly PvStructure[]).reduce(
    (product, { size }) => product * Number(size),
    1,
  );
}

/**
 * The decoded bytes in their original type: the server states it, and the size of an element
 * confirms it.
 */
function elementsOf(bytes: Uint8Array<ArrayBuffer>, structure: PvStructure): NumericArray {
  const { parameters } = structure.codec as { parameters?: unknown };
  const count = countOf(structure);
  const number = Number(parameters ?? NaN);
  const type = [SCALAR_TYPES[number], ND_TYPES[number], Uint8Array, Uint16Array, Uint32Array].find(
    (type) => type?.BYTES_PER_ELEMENT === bytes.length / count,
  );
  if (type === undefined) throw new Error("The image doesn't say of which type its elements were");
  return new type(bytes.buffer);
}
