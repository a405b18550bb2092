/** Loads the past of a PV that is followed, and loads again what the page has missed of it. */

import type { PvClient, PvHistory, PvHistoryOptions, PvSkips } from "../types.js";
import { continuation, type Continuation, type SeenUpdate } from "./seam.js";

/** An answer of the relay. */
export interface Answer extends Continuation {
  /** What the relay keeps, with the archiver's samples in it if it has any. */
  readonly past: PvHistory;
  /** Set if this is the answer that was passed without the archiver's samples before. */
  readonly kept: PvHistory | undefined;
  /** The last update before what is missing, if there is one. */
  readonly before: SeenUpdate | undefined;
  /** The whole past was requested, not only what comes after `before`. */
  readonly isAll: boolean;
}

interface LoaderOptions {
  readonly client: PvClient;
  readonly name: string;
  readonly signal: AbortSignal;
  /** Once there is an answer, nothing later is wanted. */
  readonly isOnce?: boolean;
  /** Called for each question, with the time from which updates are missing after those that were seen. */
  readonly range: (missingNs: bigint | undefined) => PvHistoryOptions;
  /** Called when updates were missed after what was seen so far. */
  readonly onMissing?: () => void;
  /**
   * Called with what the relay keeps, and again with the archiver's samples in it if there are any. They may come
   * much later: live updates are joined with `kept`, which is the past of the first call.
   */
  readonly onPast: (answer: Answer) => void;
  readonly onFailed: (error: unknown) => void;
}

/** An update as the page takes it. */
export interface TakenUpdate extends Omit<SeenUpdate, "sequence"> {
  /** Updates that this page had missed by then, and that the relay may keep. */
  readonly missed: number;
}

interface Seen extends SeenUpdate, TakenUpdate {
  /** Updates that had arrived by then. */
  readonly received: number;
  readonly atMs: number;
  /** The relay that sent it. */
  readonly relay: string | undefined;
}

/** The causes of skips that make an update missed: the others leave updates out for every page, or for good. */
export const MISSED_FIELDS = "skips { behind paced }";

/** How many updates were missed by then. */
export const missedOf = ({ behind, paced }: Pick<PvSkips, "behind" | "paced">): number =>
  behind + paced;

/**
 * Updates that have arrived before one were missed if the page took none for so long: at other times it shows the newest
 * of the updates between two frames.
 */
const STALL_MS = 100;

/** Pause after a question for what is missing; it doubles with each, and is short again after a while without one. */
const SHORTEST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 60_000;

/** A PV that has no state for so long may be one whose IOC hangs, and the relay may keep a past of it. */
const WAIT_MS = 500;

/** A question that fails for another reason may be answered later. */
const FINAL = new Set([
  "NOT_ALLOWED",
  "BAD_VALUE",
  "BAD_NAME",
  "NOT_SUPPORTED",
  "WITHHELD",
  "CLOSED",
]);

const isHidden = (): boolean => typeof document === "object" && document.hidden;

/** Whether a past with an archiver's samples begins before what is missing: the archiver has what the relay hasn't. */
function reachesBack({ archiveError, timeNs }: PvHistory, before: SeenUpdate | undefined): boolean {
  const [first] = timeNs;
  const seen = before?.timeNs;
  return archiveError === undefined && first !== undefined && seen !== undefined && first <= seen;
}

/**
 * The relay may answer before it has carried out the subscription, and the page may miss updates when it loses the
 * relay or can't keep up. Then the past doesn't reach the first update that was seen afterwards, and is requested again.
 */
export class PastLoader {
  #options: LoaderOptions;
  /** The last update that was seen or is in the past. */
  #last: Seen | undefined;
  /** The last update before what is missing. */
  #before: Seen | undefined;
  /** The whole past is missing, because what came before `#before` was never loaded. */
  #isAll = true;
  /** The first update that was seen on this connection, or after the last that was missed. */
  #first: SeenUpdate | undefined;
  /** An answer was joined. */
  #isLoaded = false;
  /** The last answer had what an archiver keeps. */
  #isComplete = false;
  /** From when updates are missed until they are joined. At first all are. */
  #isMissing = true;
  #isWanted = true;
  /** The relay has said nothing of the PV yet. */
  #isWaiting = false;
  #isAsking = false;
  #askedMs = -Infinity;
  #pauseMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: LoaderOptions) {
    this.#options = options;
    const { client, signal } = options;
    const stop = client.connection.subscribe(() => {
      const { relayInstance, silentSinceMs, state } = client.connection.getSnapshot();
      if (state === "lost") this.#miss(undefined, this.#before === undefined);
      else if (silentSinceMs !== undefined) this.#miss(undefined);
      // Numbers of another relay can't be compared.
      else if (state === "open" && this.#last !== undefined && this.#last.relay !== relayInstance) {
        this.#miss(undefined, true);
      }
      // PVs are shown before the end of the relay's silence is.
      if (this.#first !== undefined) this.#ask();
      else if (this.#isWaiting && state === "open") this.waits();
    });
    const ask = (): void => {
      this.#ask();
    };
    if (typeof document === "object") document.addEventListener("visibilitychange", ask);
    signal.addEventListener("abort", () => {
      stop();
      clearTimeout(this.#timer);
      if (typeof document === "object") document.removeEventListener("visibilitychange", ask);
    });
  }

  /** The relay has said nothing of the PV yet. */
  waits(): void {
    this.#isWaiting = true;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#ask();
    }, WAIT_MS);
  }

  /** A state of the PV was seen, or an update; returns its number. */
  seen(value: TakenUpdate | undefined): number | undefined {
    this.#isWaiting = false;
    const { client, name } = this.#options;
    const { sequence, updatesReceived: received = 0 } = client.inspect(name) ?? {};
    if (value !== undefined) {
      const atMs = Date.now();
      const relay = client.connection.getSnapshot().relayInstance;
      const update = { ...value, sequence, received, atMs, relay };
      const last = this.#last;
      if (last !== undefined) {
        const isAhead = (((sequence ?? 0) - (last.sequence ?? 0)) | 0) > 1;
        const isStalled = received - last.received > 1 && atMs - last.atMs >= STALL_MS;
        if (isAhead && (isStalled || value.missed > last.missed)) this.#miss(update);
      }
      this.#first ??= update;
      this.#last = update;
    }
    this.#ask();
    return sequence;
  }

  /** More is wanted than the last question was for. */
  again(): void {
    this.#isWanted = true;
    this.#isMissing = true;
    this.#pauseMs = 0;
    this.#ask();
  }

  /**
   * Updates are missing after the last one that was seen, up to this one if it is known. If others are missing already,
   * these begin what is missing only if they are `isFirst`.
   */
  #miss(first: SeenUpdate | undefined, isFirst = false): void {
    if (this.#options.isOnce === true && this.#isComplete) return;
    this.#first = first;
    this.#isWanted = true;
    if (this.#isMissing && !isFirst) return;
    this.#isMissing = true;
    this.#before = this.#last;
    this.#isAll = !this.#isComplete;
    this.#options.onMissing?.();
  }

  /** Asks when that is possible and of use. */
  #ask(): void {
    const { client, signal } = this.#options;
    const { silentSinceMs, state } = client.connection.getSnapshot();
    const isOpen = state === "open" && silentSinceMs === undefined;
    if (!isOpen || !this.#isWanted || this.#isAsking || signal.aborted) return;
    // A hidden page misses most updates on purpose.
    if (this.#isLoaded && isHidden()) return;
    const now = Date.now();
    const waitMs = this.#askedMs + this.#pauseMs - now;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (waitMs > 0) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#ask();
      }, waitMs);
      return;
    }
    // After the longest pause a question is late by as much as its timer.
    const isLong = now - this.#askedMs > 2 * LONGEST_PAUSE_MS;
    const longer = isLong ? 0 : Math.min(LONGEST_PAUSE_MS, 2 * this.#pauseMs);
    this.#pauseMs = Math.max(SHORTEST_PAUSE_MS, longer);
    this.#askedMs = now;
    void this.#load();
  }

  /** From when updates are missing. A clock that was set back makes later ones earlier. */
  get #missingNs(): bigint | undefined {
    const from = this.#before?.timeNs;
    const to = this.#first?.timeNs;
    return from !== undefined && to !== undefined && to < from ? to : from;
  }

  async #load(): Promise<void> {
    const { client, name, onFailed, onPast, range, signal } = this.#options;
    const before = this.#before;
    // Where an answer goes on after an update without a time stamp can't be told.
    const isAll = this.#isAll || before?.timeNs === undefined;
    this.#isAsking = true;
    this.#isWanted = false;
    let isLeft: boolean;
    let isFailed = false;
    try {
      let kept: PvHistory | undefined;
      const pass = (past: PvHistory): void => {
        const { isWhole, row } = this.#continuation(past, before);
        const isFilled = kept !== undefined && reachesBack(past, before);
        onPast({ past, kept, before, isAll, row, isWhole: isWhole || isFilled });
      };
      const past = await client.history(name, {
        ...range(isAll ? undefined : this.#missingNs),
        signal,
        onPartial: (partial) => {
          pass(partial);
          kept = partial;
        },
      });
      if (past !== kept) pass(past);
      this.#seenIn(past);
      this.#isLoaded = true;
      // What an archiver or another relay didn't answer is requested after the next loss.
      this.#isComplete = past.archiveError === undefined && past.incomplete === undefined;
      // Without a past there is nothing to wait for.
      const isKept = past.keptSinceNs !== undefined || this.#isWaiting;
      isLeft = isKept && this.#options.isOnce !== true && !this.#reaches(past.sequence);
    } catch (error) {
      const { code = "" } = error as { readonly code?: string };
      // The loss of the relay shows as such.
      isFailed = !signal.aborted && code !== "RELAY_LOST";
      if (isFailed) onFailed(error);
      isLeft = !FINAL.has(code);
    }
    this.#isAsking = false;
    this.#isWanted ||= isLeft;
    if (!this.#isWanted) {
      this.#isMissing = false;
      this.#before = undefined;
    } else if (isFailed || this.#first !== undefined) this.#ask();
  }

  /** A past may have later updates than those that were seen. */
  #seenIn({ numbers, sequence, timeNs }: PvHistory): void {
    const [number, last] = [numbers.at(-1), this.#last];
    if (sequence === undefined || number === undefined) return;
    if (last?.sequence !== undefined && ((sequence - last.sequence) | 0) <= 0) return;
    const { missed, atMs } = last ?? { missed: Infinity, atMs: -Infinity };
    const { client, name } = this.#options;
    // Before the first update of a connection, those after the past are missed.
    const { updatesReceived = 0 } = client.inspect(name) ?? {};
    const received = updatesReceived > 0 ? updatesReceived : -Infinity;
    const relay = client.connection.getSnapshot().relayInstance;
    this.#last = { sequence, timeNs: timeNs.at(-1), number, missed, received, atMs, relay };
  }

  #continuation(past: PvHistory, before: Seen | undefined): Continuation {
    if (before === undefined) return { row: 0, isWhole: true };
    const { relayInstance } = this.#options.client.connection.getSnapshot();
    return continuation(past, before, before.relay === relayInstance);
  }

  /** Whether a past up to this update leaves no gap before what was seen. */
  #reaches(sequence: number | undefined): boolean {
    if (sequence === undefined) return false;
    const first = this.#first?.sequence;
    return first === undefined || ((first - sequence) | 0) <= 1;
  }
}
