/** Writes saved values: what would happen to each, and what has happened. Every PV gets one outcome. */

import { t, type PutResult, type PutValue, type PvClient } from "pvwire";

import { absenceOf, isUnique, labelOf, textIn, type FullData, type SavedPv } from "./snapshot";

export interface Outcome {
  /** `would` and `unsure` are those of a dry run: only a put shows whether the IOC takes the value. */
  readonly kind: "would" | "unsure" | "refused" | "written" | "changed" | "perhaps";
  readonly text: string;
}

/** The outcomes in short. */
export const outcomeTexts = (): Readonly<Record<Outcome["kind"], string>> => ({
  would: t`would be written`,
  unsure: t`known when written`,
  refused: t`refused`,
  written: t`written`,
  changed: t`written, but different now`,
  perhaps: t`perhaps written`,
});

const refusal = (text: string): Outcome => ({ kind: "refused", text });

/**
 * A choice as a put takes it: its label, so that the relay refuses one that was renamed meanwhile; the index where the
 * label says nothing, or could be another choice's.
 */
function choiceOf(label: string, index: number, choices: readonly string[]): PutValue | Outcome {
  if (!choices.includes(label)) return refusal(t`the PV has no choice “${label}”`);
  if (isUnique(label, choices)) {
    return Number.isNaN(Number(label)) ? label : choices.indexOf(label);
  }
  return choices[index] === label ? index : refusal(t`the PV has several choices “${label}”`);
}

/** The value as a put takes it, or why it can't be written. */
function putValueOf(saved: SavedPv, data: FullData | undefined): PutValue | Outcome {
  const { value } = saved;
  if (saved.readOnly) return refusal(t`the file marks it as read-only`);
  if (value === undefined) return refusal(t`the snapshot has no value: ${saved.missing}`);
  if (typeof value === "object") {
    if (value.every((each) => typeof each === "number")) return value;
    if (value.every((each) => typeof each === "string")) return value;
    return value.map((each) => (typeof each === "string" ? each : BigInt(each))) as bigint[];
  }
  const label = labelOf(saved);
  const isIndex = typeof value === "number" && (saved.type === "Enum" || label !== undefined);
  if (!isIndex) return value;
  const choices = data?.display?.choices;
  if (choices == null) {
    const absence = absenceOf(data);
    return refusal(absence === "" ? t`the snapshot has a choice, and the PV has none` : absence);
  }
  return label === undefined ? value : choiceOf(label, value, choices);
}

function isOutcome(value: PutValue | Outcome): value is Outcome {
  return typeof value === "object" && "kind" in value;
}

/** A dry run of one PV, from what is known of it now. */
export function foresee(saved: SavedPv, data: FullData | undefined): Outcome {
  const value = putValueOf(saved, data);
  if (isOutcome(value)) return value;
  const absence = absenceOf(data);
  if (absence !== "" || data === undefined) return refusal(absence);
  const { display, status } = data;
  if (!status.mutable) return refusal(t`no write access at the IOC`);
  if (status.writable === false) return refusal(t`writing is not allowed by the relay`);
  if (typeof value !== "object" && textIn(saved.name, data) === null) {
    // It would become an array of one element.
    if (data.value?.array != null) return refusal(t`the snapshot has no array, and the PV has one`);
    const isNumber = /^(?:U?Int|Float)\d+$/.test(display?.type ?? "");
    if (isNumber && typeof value === "string") {
      return refusal(t`the snapshot has a text, and the PV is a number`);
    }
  }
  const { max, min } = display?.controlRange ?? { max: null, min: null };
  // Equal limits don't limit.
  const limits = max !== null && min !== null && max > min;
  if (limits && typeof value === "number" && (value < min || value > max)) {
    return refusal(t`outside the control limits ${String(min)} to ${String(max)}`);
  }
  if (status.writable === null) {
    return { kind: "unsure", text: t`only writing shows whether it is allowed` };
  }
  return { kind: "would", text: t`would be written` };
}

function outcomeOf(result: PutResult): Outcome {
  if (!result.ok) {
    const { code, mayBeWritten, message } = result.error;
    return { kind: mayBeWritten ? "perhaps" : "refused", text: `${message} (${code})` };
  }
  return result.message === undefined
    ? { kind: "written", text: t`written` }
    : { kind: "changed", text: t`written; ${result.message}` };
}

/** What a restore writes, in the order of the snapshot, and the outcomes of what it doesn't write. */
export interface Writes {
  readonly puts: readonly (readonly [name: string, value: PutValue])[];
  readonly refused: ReadonlyMap<string, Outcome>;
}

/** Nothing is written that the forecast says will be refused. */
export function writesOf(
  saved: readonly SavedPv[],
  forecast: ReadonlyMap<string, Outcome>,
  read: (name: string) => FullData | undefined,
): Writes {
  const refused = new Map<string, Outcome>();
  const puts: (readonly [string, PutValue])[] = [];
  for (const pv of saved) {
    const foreseen = forecast.get(pv.name);
    const value = foreseen?.kind === "refused" ? foreseen : putValueOf(pv, read(pv.name));
    if (isOutcome(value)) refused.set(pv.name, value);
    else puts.push([pv.name, value]);
  }
  return { puts, refused };
}

/**
 * Puts of one message, and messages that are on their way at once: together as many as the client sends at once, because
 * the time limit of a put begins before it is sent. The next message doesn't wait for the slowest put of all of them.
 */
const TOGETHER = 9;
const ON_THEIR_WAY = 4;

/** The relay took no put for a moment, because this page had sent too many: `max_puts_per_s`. */
const isTooFast = (result: PutResult): boolean =>
  !result.ok && result.error.message.startsWith("too many puts and calls a second");

const TOO_FAST_WAIT_MS = 250;

interface RestoreOptions {
  /** Nothing more is written from then on. */
  readonly signal?: AbortSignal;
  /** Called with the number of outcomes, after each message. */
  readonly onProgress?: (count: number) => void;
}

/**
 * Writes these PVs, each at most once, in their order but for those that are on their way together or have to wait
 * because the relay takes no more for a moment. Values outside a PV's control limits are refused rather than
 * clamped. The relay's rules apply to each put, and its audit has each.
 */
export async function restore(
  writer: Pick<PvClient, "putMany">,
  { puts, refused }: Writes,
  { onProgress, signal }: RestoreOptions = {},
): Promise<ReadonlyMap<string, Outcome>> {
  const outcomes = new Map(refused);
  let next = 0;
  const write = async (some: Writes["puts"]): Promise<void> => {
    if (signal?.aborted === true) {
      for (const [name] of some)
        outcomes.set(name, refusal(t`not written: the restore was stopped`));
      return;
    }
    const results = await writer.putMany(some, { checkLimits: true });
    const later = some.filter((_, at) => {
      const result = results[at];
      return result !== undefined && isTooFast(result);
    });
    results.forEach((result, at) => {
      const [name = ""] = some[at] ?? [];
      if (!isTooFast(result)) outcomes.set(name, outcomeOf(result));
    });
    onProgress?.(outcomes.size);
    if (later.length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, TOO_FAST_WAIT_MS));
    await write(later);
  };
  const writeOn = async (): Promise<void> => {
    while (next < puts.length) {
      const from = next;
      next += TOGETHER;
      await write(puts.slice(from, from + TOGETHER));
    }
  };
  await Promise.all(Array.from({ length: ON_THEIR_WAY }, writeOn));
  return outcomes;
}
