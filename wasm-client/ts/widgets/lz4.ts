/** Decodes LZ4 blocks. */

const DAMAGED = "The image's lz4 bytes are damaged";

/** Maximum ratio of decoded to encoded bytes. */
const MAX_RATIO = 255;

/** Decodes an LZ4 block without a frame, as `LZ4_compress_default` creates it. */
export function decodeLz4(bytes: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  // Checked before memory is allocated: one byte adds at most 255 to a length.
  if (size > MAX_RATIO * bytes.length) throw new Error(DAMAGED);
  const out = new Uint8Array(size);
  let from = 0;
  let to = 0;
  /** Adds bytes to a length of 15 until one of them isn't 255. */
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
