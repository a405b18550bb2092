/** Decodes images that were encoded by area detector's codec plugin. */

import type { NumericArray, PvStructure } from "../types.js";
import { t } from "../texts.js";
import { codecOf, type Picture, pictureOf } from "./pixels.js";

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
      t`Codec ${codec} isn't supported: choose jpeg, lz4, bslz4, blosc or none in the detector's codec plugin`,
    );
  }
  const size = Number(structure.uncompressedSize ?? 0);
  if (!(size <= MAX_IMAGE_BYTES)) {
    throw new Error(t`The image says that it has ${String(size)} bytes: too many to decode`);
  }
  const decoded = await decode(bytesOf(structure), size, size / countOf(structure));
  const picture = pictureOf(
    { ...structure, value: elementsOf(decoded, structure) },
    null,
    undefined,
  );
  if (picture === undefined) throw new Error(t`The image has fewer elements than its dimensions`);
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
  if (!ArrayBuffer.isView(bytes)) throw new Error(t`The image holds no bytes`);
  const length = Number(compressedSize ?? 0);
  return new Uint8Array(
    bytes.buffer as ArrayBuffer,
    bytes.byteOffset,
    length > 0 && length < bytes.byteLength ? length : bytes.byteLength,
  );
}

async function decodeJpeg(bytes: Uint8Array<ArrayBuffer>): Promise<Picture> {
  const image = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" })).catch(() => {
    throw new Error(t`The image says that it is a JPEG and can't be read as one`);
  });
  const { height, width } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  if (context === null) throw new Error(t`This browser gives no canvas to decode on`);
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
    throw new Error(t`The package numcodecs, which decodes blosc, can't be loaded`, {
      cause: error,
    });
  });
  const damaged = new Error(t`The image's blosc bytes are damaged`);
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
  if (type === undefined) throw new Error(t`The image doesn't say of which type its elements were`);
  return new type(bytes.buffer);
}

const lz4Damaged = (): Error => new Error(t`The image's lz4 bytes are damaged`);

/** Maximum ratio of decoded to encoded bytes. */
const MAX_RATIO = 255;

/** Decodes an LZ4 block without a frame, as `LZ4_compress_default` creates it. */
export function decodeLz4(bytes: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  // Checked before memory is allocated: one byte adds at most 255 to a length.
  if (size > MAX_RATIO * bytes.length) throw lz4Damaged();
  const out = new Uint8Array(size);
  let from = 0;
  let to = 0;
  /** Adds bytes to a length of 15 until one of them isn't 255. */
  const lengthened = (length: number): number => {
    if (length < 15) return length;
    let more: number;
    do {
      if (from >= bytes.length) throw lz4Damaged();
      more = bytes[from++] as number;
      length += more;
    } while (more === 255);
    return length;
  };
  while (from < bytes.length) {
    const token = bytes[from++] as number;
    const literals = lengthened(token >> 4);
    if (from + literals > bytes.length || to + literals > size) throw lz4Damaged();
    out.set(bytes.subarray(from, from + literals), to);
    from += literals;
    to += literals;
    // The last sequence has literals only.
    if (from === bytes.length) break;
    if (from + 2 > bytes.length) throw lz4Damaged();
    const distance = (bytes[from] as number) | ((bytes[from + 1] as number) << 8);
    from += 2;
    const length = lengthened(token & 15) + 4;
    if (distance === 0 || distance > to || to + length > size) throw lz4Damaged();
    if (distance >= length) out.copyWithin(to, to - distance, to - distance + length);
    else for (let at = to; at < to + length; at += 1) out[at] = out[at - distance] as number;
    to += length;
  }
  if (to !== size) throw lz4Damaged();
  return out;
}

/** HDF5's filter adds a header with the total size and the block size in bytes. */
const HEADER_BYTES = 12;

/** Elements are shuffled in groups of eight; a remainder at the end is stored unchanged. */
const GROUP = 8;

/** Default size of a block in bytes, and its minimum in elements. */
const BLOCK_BYTES = 8192;
const MIN_BLOCK_ELEMENTS = 128;

const shuffleDamaged = (): Error => new Error(t`The image's bslz4 bytes are damaged`);

/** With HDF5's header, or without it as in areaDetector's codec plugin. */
function decodeBitshuffle(
  bytes: Uint8Array,
  size: number,
  elementBytes: number,
): Uint8Array<ArrayBuffer> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  // Without a header the first number is the size of a packed block, which is never 0.
  const hasHeader = bytes.length >= HEADER_BYTES && view.getBigUint64(0) === BigInt(size);
  let from = hasHeader ? HEADER_BYTES : 0;
  const groupBytes = GROUP * elementBytes;
  const usual = Math.floor(BLOCK_BYTES / groupBytes) * groupBytes;
  const blockBytes =
    (hasHeader && view.getUint32(8)) || Math.max(usual, MIN_BLOCK_ELEMENTS * elementBytes);
  const shuffled = size - (size % groupBytes);
  const isPossible = size % elementBytes === 0 && blockBytes % groupBytes === 0;
  if (!isPossible || size > 255 * bytes.length) throw shuffleDamaged();
  const out = new Uint8Array(size);
  for (let to = 0; to < shuffled; to += blockBytes) {
    const end = Math.min(to + blockBytes, shuffled);
    if (from + 4 > bytes.length) throw shuffleDamaged();
    const packed = view.getUint32(from);
    const next = from + 4 + packed;
    if (next > bytes.length) throw shuffleDamaged();
    const block = decodeLz4(bytes.subarray(from + 4, next), end - to);
    unshuffle(block, out.subarray(to, end), elementBytes);
    from = next;
  }
  if (bytes.length - from !== size - shuffled) throw shuffleDamaged();
  out.set(bytes.subarray(from), shuffled);
  return out;
}

/**
 * A block contains the lowest bits of all elements first, then the next ones, up to the highest.
 */
function unshuffle(block: Uint8Array, out: Uint8Array, elementBytes: number): void {
  const groups = block.length / (GROUP * elementBytes);
  for (let byte = 0; byte < elementBytes; byte += 1) {
    for (let group = 0; group < groups; group += 1) {
      const row = (bit: number): number => block[(GROUP * byte + bit) * groups + group] as number;
      // Transposes eight rows of eight bits: swaps single bits of pairs, then pairs, then halves.
      let low = row(0) | (row(1) << 8) | (row(2) << 16) | (row(3) << 24);
      let high = row(4) | (row(5) << 8) | (row(6) << 16) | (row(7) << 24);
      let change = (low ^ (low >>> 7)) & 0x00aa00aa;
      low ^= change ^ (change << 7);
      change = (high ^ (high >>> 7)) & 0x00aa00aa;
      high ^= change ^ (change << 7);
      change = (low ^ (low >>> 14)) & 0x0000cccc;
      low ^= change ^ (change << 14);
      change = (high ^ (high >>> 14)) & 0x0000cccc;
      high ^= change ^ (change << 14);
      change = (low ^ (high << 4)) & 0xf0f0f0f0;
      low ^= change;
      high ^= change >>> 4;
      for (let bit = 0; bit < GROUP; bit += 1) {
        const word = bit < 4 ? low : high;
        out[(GROUP * group + bit) * elementBytes + byte] = word >>> (8 * (bit & 3));
      }
    }
  }
}
