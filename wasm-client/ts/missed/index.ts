/**
 * pvwire/missed: the updates that a client has missed while it was cut off from its relay. They are requested after each
 * reconnect, and counted.
 */

import { Client } from "../client/client.js";
import type { PvEntry } from "../client/subscriptions.js";
import { isOfPage } from "../pv/page_pv.js";
import type { Wasm } from "../store/core.js";
import { Cell, callListener } from "../store/readable.js";
import type { PvClient, PvHistory, Readable } from "../types.js";
import {
  ahead,
  continued,
  joined,
  kept,
  readPages,
  type Answer,
  type Kept,
  type Position,
  type PvAbsent,
  type PvMissed,
} from "./pages.js";

export type { PvAbsent, PvMissed };

/** Counts over all reconnects. */
export interface MissedSnapshot {
  /** Missed updates that were had afterwards. */
  readonly updatesTotal: number;
  /** Missed updates that can't be had; each is also in the PV's `skips`. */
  readonly absentTotal: number;
  /** PVs of which updates may be missing without a count, once for each time without connection. */
  readonly unknownTotal: number;
  /** PVs whose missed updates are not known yet. */
  readonly waiting: number;
}

/** Asks for missed updates until it is ended. */
export interface MissedWatch extends Readable<MissedSnapshot> {
  /** Ends it. */
  readonly end: () => void;
}

/** How often a PV is checked whose first update after a reconnect has not come. */
const LOOK_MS = 50;
const SELDOM_LOOK_MS = 1000;

/** Pause before updates are asked for again that the relay didn't have yet. */
const AGAIN_MS = 100;

/** After this number of answers what is still missing can't be had. */
const MAX_TRIES = 5;

/** The relay accepts 65,536 bytes. */
const MAX_QUESTION_BYTES = 60_000;

/** See `store.rs`. */
const RELAY_LOST = 4;

/** Causes of skips by their numbers on the wire: those of `LeftOut` in its order, and what this client has missed. */
const CAUSES = [1, 2, 3, 6] as const;
const BEHIND = 4;

/** Codes of a relay that never answers. */
const NEVER = new Set(["BAD_NAME", "NOT_SUPPORTED", "BAD_VALUE"]);

const utf8 = new TextEncoder();

/** Number of PVs of which another relay is asked for the past at once. */
const PASTS = 16;

/** What the module knows of a PV. */
interface Known extends Position {
  /** Of the last update; 0 without a time stamp. */
  readonly timeNs: bigint;
  readonly received: number;
  readonly skipped: number;
  readonly state: number;
}

/** A time without connection, for one PV. */
interface Cut {
  readonly entry: PvEntry;
  readonly wasm: Wasm;
  readonly instance: string | undefined;
  /** At its begin. */
  readonly last: Known;
  /** The update after which updates are missing. */
  after: Position;
  /** The first update afterwards, and the relay that has counted it. */
  first: Position | undefined;
  firstOf: string | undefined;
  tries: number;
}

/**
 * After each reconnect asks the relay for what the client has missed meanwhile of its PVs without a filter, and calls
 * `onMissed` with it, PV by PV. What can't be had is counted there, in `skips` of the PV (as `behind`), and in the
 * snapshot. PVs show their present value at once, and never one of those.
 *
 * Another relay of a fleet, or one that was restarted, has other numbers for updates: there the missed ones are those that its past
 * has after the time stamp of the last one.
 *
 * ```ts
 * const missed = watchMissed(client, ({ name, timeNs, numbers, absent }) => {
 *   log.insert(name, timeNs, numbers, absent);
 * });
 * ```
 */
export function watchMissed(client: PvClient, onMissed: (missed: PvMissed) => void): MissedWatch {
  if (!(client instanceof Client)) throw new TypeError("a client of createClient is needed");
  return new Watch(client, onMissed);
}

class Watch implements MissedWatch {
  readonly #client: Client;
  readonly #onMissed: (missed: PvMissed) => void;
  readonly #cell = new Cell<MissedSnapshot>(
    { updatesTotal: 0, absentTotal: 0, unknownTotal: 0, waiting: 0 },
    () => undefined,
  );
  /** In the order of their begin. */
  #cuts: Cut[] = [];
  /** Skips of a PV that were counted here. */
  #counted = new WeakMap<PvEntry, number>();
  #instance: string | undefined;
  #isOpen = false;
  #isAsking = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #leave: () => void;

  constructor(client: Client, onMissed: (missed: PvMissed) => void) {
    this.#client = client;
    this.#onMissed = onMissed;
    this.#leave = client.connection.subscribe(this.#connection);
    this.#connection();
  }

  readonly subscribe = (listener: () => void): (() => void) => this.#cell.subscribe(listener);

  readonly getSnapshot = (): MissedSnapshot => this.#cell.getSnapshot();

  readonly end = (): void => {
    this.#leave();
    clearTimeout(this.#timer);
    this.#cuts = [];
    this.#isOpen = false;
  };

  readonly #connection = (): void => {
    const { relayInstance, state } = this.#client.connection.getSnapshot();
    const wasOpen = this.#isOpen;
    this.#isOpen = state === "open";
    if (state === "closed") this.end();
    else if (wasOpen && !this.#isOpen) this.#lost();
    else if (this.#isOpen) {
      this.#instance = relayInstance;
      if (!wasOpen) this.#lookIn(LOOK_MS);
    }
  };

  #known(entry: PvEntry): Known {
    const known = this.#client.pvs.core().inspect(entry.slot?.index ?? 0);
    const [sequence = 0, received = 0, all = 0, epoch = 0, state = 0, seconds = 0, rest = 0] =
      known;
    const timeNs = 1_000_000_000n * BigInt(Math.max(0, seconds)) + BigInt(seconds > 0 ? rest : 0);
    const skipped = all - (this.#counted.get(entry) ?? 0);
    return { sequence, received, epoch, state, skipped, timeNs };
  }

  /** The connection was lost: keeps what the client has of each PV. */
  #lost(): void {
    clearTimeout(this.#timer);
    const { pvs } = this.#client;
    const { wasm } = pvs;
    if (wasm === undefined) return;
    // A PV that has not come back since the loss before has missed more.
    const waiting = new Set(
      this.#cuts.filter(({ first }) => first === undefined).map(({ entry }) => entry),
    );
    for (const entry of pvs.entries.values()) {
      const { filter, name, slot } = entry;
      if (filter !== "" || slot === undefined || isOfPage(name) || waiting.has(entry)) continue;
      const last = this.#known(entry);
      if (last.received === 0) continue;
      const { epoch, sequence } = last;
      const after = { epoch, sequence };
      const instance = this.#instance;
      this.#cuts.push({
        entry,
        wasm,
        instance,
        last,
        after,
        first: undefined,
        firstOf: undefined,
        tries: 0,
      });
    }
    this.#show({});
  }

  #show(change: Partial<MissedSnapshot>): void {
    this.#cell.set({ ...this.getSnapshot(), ...change, waiting: this.#cuts.length });
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#isOpen) return;
    this.#timer = setTimeout(() => {
      this.#look();
    }, ms);
  }

  /** Looks for PVs that are back, and asks. */
  #look(): void {
    const { pvs } = this.#client;
    const left: Cut[] = [];
    let pause = SELDOM_LOOK_MS;
    for (const cut of this.#cuts) {
      const { entry, wasm } = cut;
      // Otherwise no part of the page wants it any more.
      if (pvs.entries.get(entry.name + entry.filter) !== entry) continue;
      const isOfAnother = cut.first !== undefined && cut.firstOf !== this.#instance;
      if (pvs.wasm !== wasm || isOfAnother) {
        this.#tell(cut, nothing("restarted", undefined));
        continue;
      }
      const known = this.#known(entry);
      if (cut.first === undefined && known.state === RELAY_LOST) pause = LOOK_MS;
      if (this.#isMissing(cut, known)) left.push(cut);
    }
    if (!this.#isOpen) return;
    this.#cuts = left;
    this.#show({});
    if (left.some(({ first }) => first !== undefined)) void this.#ask();
    if (left.length > 0) this.#lookIn(pause);
  }

  /** Whether updates of a PV may be missing, by what the client has of it now. */
  #isMissing(cut: Cut, { epoch, received, sequence, skipped, state }: Known): boolean {
    const { last } = cut;
    if (cut.first !== undefined) return true;
    const news = received - last.received;
    const isOther = this.#isOther(cut);
    if (isOther && news === 0) return true;
    // The snapshot had the update that the client has, or has not come, or had none yet.
    if (news === 0) return state === RELAY_LOST || sequence !== last.sequence;
    const later = news - 1 + skipped - last.skipped;
    cut.first = { epoch, sequence: (sequence - later) >>> 0 };
    cut.firstOf = this.#instance;
    return isOther || epoch !== last.epoch || ahead(cut.first.sequence, last.sequence) > 1;
  }

  /** Whether its updates were counted by another relay, or by this one before it was restarted. */
  #isOther({ instance }: Cut): boolean {
    return instance !== this.#instance;
  }

  /** Takes what a relay has kept that numbers updates otherwise; returns whether that is all. */
  async #askPast(cut: Cut): Promise<boolean> {
    const { entry, first, last } = cut;
    if (last.timeNs === 0n || first === undefined) {
      this.#tell(cut, nothing("restarted", undefined));
      return true;
    }
    let past: PvHistory;
    try {
      past = await this.#client.history(entry.name, { from: last.timeNs });
    } catch (error) {
      const { code = "" } = error as { readonly code?: string };
      if (code === "RELAY_LOST" || (!NEVER.has(code) && !this.#isLastTry(cut))) return false;
      this.#tell(cut, nothing(code === "NOT_ALLOWED" ? "not allowed" : "restarted", undefined));
      return true;
    }
    const missed = continued(past, last.timeNs, first);
    // The relay may keep an update some milliseconds after its clients have it.
    if (missed === undefined && !this.#isLastTry(cut)) return false;
    if (missed === undefined) this.#tell(cut, nothing("restarted", undefined));
    else this.#pass(missed);
    return true;
  }

  /** Asks for what was missed of the PVs that are back. */
  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const back = this.#cuts.filter(({ first }) => first !== undefined);
    const others = back.filter((cut) => this.#isOther(cut)).slice(0, PASTS);
    const same = asked(back.filter((cut) => !this.#isOther(cut)));
    const [answered, ...pasts] = await Promise.all([
      this.#askMissed(same),
      ...others.map((cut) => this.#askPast(cut)),
    ]);
    const done = new Set([...answered, ...others.filter((_, at) => pasts[at])]);
    this.#isAsking = false;
    this.#cuts = this.#cuts.filter((cut) => !done.has(cut));
    this.#show({});
    // Others didn't fit, or their answers were not whole.
    const isLeft = this.#cuts.some(({ first }) => first !== undefined);
    if (isLeft) this.#lookIn(done.size === same.length + others.length ? 0 : AGAIN_MS);
  }

  /** Asks the relay that has counted the updates of these PVs; returns those of which it has told all. */
  async #askMissed(cuts: readonly Cut[]): Promise<readonly Cut[]> {
    if (cuts.length === 0) return [];
    const relay = String(BigInt(`0x${this.#instance ?? "0"}`));
    const pvs = cuts.map(({ after, entry }) => [entry.name, after.epoch, after.sequence]);
    try {
      const questions = await this.#client.questions.load();
      const pages = await questions.missed(JSON.stringify({ relay, pvs }));
      const all = readPages(pages, cuts.length);
      return cuts.filter((cut, at) => this.#answered(cut, all[at] as Answer));
    } catch (error) {
      const { code = "" } = error as { readonly code?: string };
      // After a loss of the relay they are asked for again.
      if (code === "RELAY_LOST") return [];
      const done = cuts.filter((cut) => this.#isLastTry(cut) || NEVER.has(code));
      for (const cut of done) this.#tell(cut, nothing("not answered", missing(cut)));
      return done;
    }
  }

  #isLastTry(cut: Cut): boolean {
    cut.tries += 1;
    return cut.tries >= MAX_TRIES;
  }

  /** Takes an answer; returns whether it is the last one. */
  #answered(cut: Cut, answer: Answer): boolean {
    const { after, first } = cut;
    const { absent, end, refused, runs } = answer;
    if (first === undefined || end === undefined || refused !== undefined) {
      const cause = refused === undefined ? "not answered" : "not allowed";
      this.#tell(cut, nothing(cause, missing(cut)));
      return true;
    }
    const [unknown] = absent;
    if (runs.length === 0 && unknown !== undefined && isSame(end, after)) {
      this.#tell(cut, nothing(unknown.cause, missing(cut)));
      return true;
    }
    this.#tell(cut, kept(answer, first));
    const isWhole = end.epoch === first.epoch && ahead(end.sequence, first.sequence) >= -1;
    if (isWhole) return true;
    cut.after = end;
    // The relay may keep an update some milliseconds after its clients have it.
    if (!this.#isLastTry(cut)) return false;
    this.#tell(cut, nothing("not kept", missing(cut)));
    return true;
  }

  /** Tells and counts what is known now of what was missed. */
  #tell({ entry, wasm }: Cut, { absent, first, runs }: Kept): void {
    const gone = absent.filter(({ cause }) => cause !== "repeated");
    const count = gone.reduce((sum, { count: updates = 0 }) => sum + updates, 0);
    const leftOut = [...runs.flatMap(({ leftOut: each }) => each), first];
    CAUSES.forEach((cause, at) => {
      this.#skip(
        entry,
        wasm,
        cause,
        leftOut.reduce((sum, each) => sum + (each[at] ?? 0), 0),
      );
    });
    this.#skip(entry, wasm, BEHIND, count);
    this.#pass({ ...joined(entry.name, runs), absent });
  }

  #pass(missed: PvMissed): void {
    if (missed.sequences.length === 0 && missed.absent.length === 0) return;
    const gone = missed.absent.filter(({ cause }) => cause !== "repeated");
    const count = gone.reduce((sum, { count: updates = 0 }) => sum + updates, 0);
    const { absentTotal, unknownTotal, updatesTotal } = this.getSnapshot();
    this.#show({
      updatesTotal: updatesTotal + missed.sequences.length,
      absentTotal: absentTotal + count,
      unknownTotal: unknownTotal + (gone.some((each) => each.count === undefined) ? 1 : 0),
    });
    callListener(() => {
      this.#onMissed(missed);
    });
  }

  #skip(entry: PvEntry, wasm: Wasm, cause: number, count: number): void {
    const { pvs } = this.#client;
    if (count === 0 || entry.slot === undefined || pvs.wasm !== wasm) return;
    wasm.core.skip(entry.slot.index, cause, count);
    this.#counted.set(entry, (this.#counted.get(entry) ?? 0) + count);
    pvs.flusher.later();
  }
}

/** As many of them as fit in a question. */
function asked(cuts: readonly Cut[]): readonly Cut[] {
  let bytes = 0;
  return cuts.filter(({ after, entry }) => {
    bytes += utf8.encode(JSON.stringify([entry.name, after.epoch, after.sequence])).length + 1;
    return bytes <= MAX_QUESTION_BYTES;
  });
}

const isSame = (one: Position, other: Position): boolean =>
  one.epoch === other.epoch && one.sequence === other.sequence;

/** How many updates of a PV are missing, if its numbers say so. */
function missing({ after, first }: Cut): number | undefined {
  if (first?.epoch !== after.epoch) return undefined;
  return Math.max(0, ahead(first.sequence, after.sequence) - 1);
}

/** An answer without updates. */
const nothing = (cause: PvAbsent["cause"], count: number | undefined): Kept => ({
  runs: [],
  first: [0, 0, 0, 0],
  absent: count === 0 ? [] : [{ cause, count }],
});
