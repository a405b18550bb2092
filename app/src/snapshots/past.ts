/** The values of PVs at a past moment, from what the relay and its archiver keep. */

import { t, type PvClient, type PvHistory } from "pvwire";

import { absenceOf, missingPv, textOf, type FullData, type SavedPv } from "./snapshot";

const SEVERITIES = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"] as const;
const BILLION = 1_000_000_000n;

/** The value that held at a moment. */
function heldAt(name: string, past: PvHistory, atNs: bigint, data: FullData | undefined): SavedPv {
  const { archiveError, gaps, integers, keptSinceNs, numbers, severities, texts, timeNs } = past;
  if (keptSinceNs === undefined && timeNs.length === 0) {
    return missingPv(name, archiveError?.message ?? t`no past of it is kept`);
  }
  let row = -1;
  timeNs.forEach((ns, at) => {
    if (ns <= atNs) row = at;
  });
  const stamp = timeNs[row];
  if (stamp === undefined)
    return missingPv(name, archiveError?.message ?? t`its past begins later`);
  const gap = gaps.find(
    ({ fromNs, toNs }) => fromNs <= atNs && (toNs === undefined || toNs > atNs),
  );
  if (gap !== undefined) return missingPv(name, t`${gap.cause} then`);
  const type = data?.display?.type ?? "Unknown";
  const choices = data?.display?.choices ?? undefined;
  const value = texts.get(row) ?? integers.get(row) ?? numbers[row];
  return {
    name,
    value,
    missing: "",
    type,
    choices,
    text: textOf({ choices, value }),
    severity: SEVERITIES[severities[row] ?? 0] ?? null,
    status: null,
    seconds: Number(stamp / BILLION),
    nanoseconds: Number(stamp % BILLION),
    tolerance: "",
  };
}

export async function takePast(
  client: Pick<PvClient, "history">,
  names: readonly string[],
  atMs: number,
  read: (name: string) => FullData | undefined,
): Promise<SavedPv[]> {
  return Promise.all(names.map((name) => readPast(client, name, atMs, read)));
}

/** The value of one PV at a past moment, or why it is missing. Rejects only if `signal` ends it. */
export async function readPast(
  client: Pick<PvClient, "history">,
  name: string,
  atMs: number,
  read: (name: string) => FullData | undefined,
  signal?: AbortSignal,
): Promise<SavedPv> {
  const atNs = BigInt(Math.round(atMs)) * 1_000_000n;
  const data = read(name);
  try {
    const past = await client.history(name, { from: atNs, to: atNs, signal });
    const isArray = data?.value?.array != null;
    const why = isArray ? t`the relay keeps no past of arrays` : "";
    return why === "" ? heldAt(name, past, atNs, data) : missingPv(name, why);
  } catch (error) {
    signal?.throwIfAborted();
    const why = error instanceof Error ? error.message : String(error);
    return missingPv(name, absenceOf(data) === "" ? why : absenceOf(data));
  }
}
