/** Decodes bytes that were encoded with bitshuffle and LZ4. */

import { decodeLz4 } from "./lz4.js";

/** HDF5's filter adds a header with the total size and the block size in bytes. */
const HEADER_BYTES = 12;

/** Elements are shuffled in groups of eight; a remainder at the end is stored unchanged. */
const GROUP = 8;

/** Default size of a block in bytes, and its minimum in elements. */
const BLOCK_BYTES = 8192;
const MIN_BLOCK_ELEMENTS = 128;

const DAMAGED = "The image's bslz4 bytes are damaged";

/** With HDF5's header, or without it as in areaDetector's codec plugin. */
export function decodeBitshuffle(
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
  if (!isPossible || size > 255 * bytes.length) throw new Error(DAMAGED);
  const out = new Uint8Array(size);
  for (let to = 0; to < shuffled; to += blockBytes) {
    const end = Math.min(to + blockBytes, shuffled);
    if (from + 4 > bytes.length) throw new Error(DAMAGED);
    const packed = view.getUint32(from);
    const next = from + 4 + packed;
    if (next > bytes.length) throw new Error(DAMAGED);
    const block = decodeLz4(bytes.subarray(from + 4, next), end - to);
    unshuffle(block, out.subarray(to, end), elementBytes);
    from = next;
  }
  if (bytes.length - from !== size - shuffled) throw new Error(DAMAGED);
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
