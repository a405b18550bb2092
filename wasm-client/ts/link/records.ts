/** Splits the endless HTTP body of large values into messages. */

/** A message, and the number of bytes before its array's elements. */
export interface LargeRecord {
  readonly data: ArrayBuffer;
  readonly head: number;
}

/** Maximum length of a message; also in PROTOCOL.md. */
const MAX_BYTES = 1 << 28;

/** Length and head of the following message, each a 32-bit number. */
const HEADER_BYTES = 8;

/**
 * Fetches a body and passes on its records, each in a separate buffer; throws when the body ends.
 */
export async function readRecords(
  url: string,
  onRecord: (record: LargeRecord) => void,
  signal?: AbortSignal,
): Promise<void> {
  const response = await fetch(url, { cache: "no-store", signal: signal ?? null });
  if (!response.ok || response.body === null) {
    throw new Error(`the relay answered ${String(response.status)}`);
  }
  const reader = response.body.getReader();
  const header = new Uint8Array(HEADER_BYTES);
  const numbers = new DataView(header.buffer);
  let target = header;
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the relay ended the stream");
    for (let at = 0; at < value.length;) {
      const count = Math.min(value.length - at, target.length - filled);
      target.set(value.subarray(at, at + count), filled);
      at += count;
      filled += count;
      if (filled < target.length) continue;
      filled = 0;
      const length = numbers.getUint32(0, true);
      if (target === header && length > 0) {
        if (length > MAX_BYTES) throw new Error(`a record has ${String(length)} bytes`);
        target = new Uint8Array(length);
      } else {
        const data = target === header ? new ArrayBuffer(0) : target.buffer;
        onRecord({ data, head: Math.min(numbers.getUint32(4, true), length) });
        target = header;
      }
    }
  }
}
