/** How much of a large array arrives. */

import { createClient } from "pvwire";

interface Waveform {
  readonly value: { readonly array: Float64Array | null } | null;
}

export interface ArrayFigures {
  readonly updates_per_s: number;
  readonly megabytes_per_s: number;
  readonly left_out_per_s: number;
}

const ELEMENT_BYTES = 8;

/** Of one PV, with a listener that reads the array. */
export async function arrays(
  url: string,
  name: string,
  elements: number,
  warmUpMs: number,
  ms: number,
): Promise<ArrayFigures> {
  const client = createClient({ url });
  const pv = client.pv<Waveform>(name, "{ value { array } }");
  let wrong = 0;
  let shown = 0;
  pv.subscribe(() => {
    const array = pv.getSnapshot()?.value?.array;
    if (array == null) return;
    shown += 1;
    if (array.length !== elements || !(Math.abs(array[elements - 1] as number) <= 1)) wrong += 1;
  });
  const wait = (howLong: number): Promise<void> =>
    new Promise((resolve) => setTimeout(resolve, howLong));
  const now = (): { atMs: number; received: number; skipped: number } => ({
    atMs: performance.now(),
    received: client.inspect(name)?.updatesReceived ?? 0,
    skipped: client.inspect(name)?.skipped ?? 0,
  });
  await wait(warmUpMs);
  const before = now();
  await wait(ms);
  const after = now();
  client.dispose();
  if (wrong > 0) throw new Error(`${String(wrong)} of ${String(shown)} arrays are wrong`);
  const seconds = (after.atMs - before.atMs) / 1000;
  const received = after.received - before.received;
  return {
    updates_per_s: received / seconds,
    megabytes_per_s: (received * elements * ELEMENT_BYTES) / seconds / 1e6,
    left_out_per_s: (after.skipped - before.skipped) / seconds,
  };
}
