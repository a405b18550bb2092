/** Reads of one client: waiting names, open requests, and results. */

import type { Clock, Timer } from "../clock.js";
import type { ArrayRow, Wasm } from "../store/core.js";
import { PvError } from "../errors.js";
import { DESCRIBES, planSelection, showAll, type Plan, type Selection } from "../pv/plan.js";
import { Slot } from "../store/slot.js";
import type { GetOptions, GetResult } from "../types.js";

/** Maximum number of open Gets; the relay accepts 64 requests of any kind. */
const MAX_OPEN = 16;

const DEFAULT_TIMEOUT_MS = 5000;

/** Time allowed for the round trip in addition to the time that the relay waits. */
const GRACE_MS = 5000;

/** Problems in the order of the wire's numbers. */
const PROBLEMS: readonly string[] = [
  "UNKNOWN",
  "BAD_NAME",
  "NO_SUCH_SOURCE",
  "TOO_MANY_SUBSCRIPTIONS",
  "TIMED_OUT",
  "TOO_MANY_FILTERS",
  "NOT_ALLOWED",
  "TOO_MANY_PVS",
  "NO_SUCH_FIELD",
];

/** Options whose selection may already be compiled. */
export interface PlannedOptions extends Omit<GetOptions, "selection"> {
  selection?: Selection;
}

/** One call of `get`. */
interface Job {
  readonly results: (GetResult<unknown> | undefined)[];
  readonly plan: Plan;
  readonly timeoutMs: number;
  timer: Timer;
  readonly resolve: (results: GetResult<unknown>[]) => void;
  readonly names: readonly string[];
  open: number;
}

/** A range of a job's names that one request contains. */
interface Piece {
  readonly job: Job;
  readonly from: number;
  readonly to: number;
}

export class Gets {
  #clock: Clock;
  #waiting: Piece[] = [];
  #open = new Map<number, Piece>();
  /** Why nothing can be read now: the code and the reason. */
  away: readonly [code: "RELAY_LOST" | "CLOSED", reason: string] | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Only when the module is loaded. */
  add(names: readonly string[], options: PlannedOptions): Promise<GetResult<unknown>[]> {
    const { selection, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const plan = planSelection(selection);
    return new Promise((resolve) => {
      const job: Job = {
        results: names.map(() => undefined),
        plan,
        timeoutMs,
        timer: this.#clock.setTimeout(() => {
          this.#expire(job);
        }, timeoutMs),
        resolve,
        names: [...names],
        open: names.length,
      };
      if (this.away !== undefined) this.#give(job, ...this.away);
      else if (names.length === 0) this.#finish(job);
      else this.#waiting.push({ job, from: 0, to: names.length });
    });
  }

  /** Sends as many requests as possible. */
  pump(wasm: Wasm, send: (bytes: Uint8Array<ArrayBuffer>) => void): void {
    this.away = undefined;
    while (this.#open.size < MAX_OPEN) {
      const piece = this.#waiting.shift();
      if (piece === undefined) return;
      const { job, from, to } = piece;
      if (job.open === 0) continue;
      const describes = (job.plan.mask & DESCRIBES) !== 0;
      const bytes = wasm.core.get(job.names.slice(from, to), job.timeoutMs, describes);
      const cut = from + wasm.core.taken();
      if (cut < to) this.#waiting.unshift({ job, from: cut, to });
      this.#open.set(wasm.core.last_request(), { job, from, to: cut });
      send(bytes as Uint8Array<ArrayBuffer>);
    }
  }

  /** A Get was answered by the message in `data`. */
  answered(wasm: Wasm, request: number, arrays: Uint32Array, data: ArrayBuffer): void {
    const piece = this.#open.get(request);
    if (piece === undefined) return;
    this.#open.delete(request);
    const { job, from, to } = piece;
    const slots = job.names.slice(from, to).map((name, index) => new Slot(wasm, name, index, true));
    for (let at = 0; at < arrays.length; at += 4) {
      const [slot, ...place] = arrays.subarray(at, at + 4) as unknown as ArrayRow;
      slots[slot]?.keepArray(data, ...place);
    }
    const errors = wasm.core.name_errors();
    for (let at = 0; at < errors.length; at += 3) {
      const [index, problem, message] = errors.slice(at, at + 3) as [string, string, string];
      const place = from + Number(index);
      if (place < to) this.#set(job, place, PROBLEMS[Number(problem)] ?? "UNKNOWN", message);
    }
    const length = wasm.core.answer_len();
    const open = slots.filter(({ index }) => job.results[from + index] === undefined);
    const found = open.filter(({ index }) => index < length);
    const shown = showAll(wasm, job.plan, found, true);
    found.forEach(({ index, name }, at) => {
      job.results[from + index] = { name, ok: true, data: shown[at] };
      job.open -= 1;
    });
    for (const { index } of open.slice(found.length)) {
      this.#set(job, from + index, "UNKNOWN", "the relay's answer leaves the PV out");
    }
    if (job.open === 0) this.#finish(job);
  }

  /** A Get was refused as a whole; returns `false` if the request wasn't a Get. */
  refused(request: number, message: string): boolean {
    const piece = this.#open.get(request);
    if (piece === undefined) return false;
    this.#open.delete(request);
    this.#give(piece.job, "REFUSED", message);
    return true;
  }

  /**
   * The connection was lost, or none could be made: what wasn't sent fails. What was sent is sent
   * again on the next connection, unless there will be none.
   */
  lost(): void {
    const [code = "CLOSED", reason = ""] = this.away ?? [];
    const open = [...this.#open.values()];
    this.#open.clear();
    for (const { job } of code === "CLOSED" ? [...this.#waiting, ...open] : this.#waiting) {
      this.#give(job, code, reason);
    }
    this.#waiting = open.filter(({ job }) => job.open > 0);
  }

  /** The relay has had its time for a job. */
  #expire(job: Job): void {
    if (this.away !== undefined) {
      this.#give(job, ...this.away);
      return;
    }
    job.timer = this.#clock.setTimeout(() => {
      this.#give(job, "TIMED_OUT", `no answer within ${String(job.timeoutMs)} ms`);
    }, GRACE_MS);
  }

  #set(job: Job, place: number, code: string, message: string): void {
    const name = job.names[place] as string;
    if (job.results[place] !== undefined) return;
    job.results[place] = { name, ok: false, error: new PvError(name, code, message) };
    job.open -= 1;
  }

  /** Ends a job: names without a result get this error. */
  #give(job: Job, code: string, message: string): void {
    for (let place = 0; place < job.names.length; place += 1) this.#set(job, place, code, message);
    this.#finish(job);
  }

  #finish(job: Job): void {
    this.#clock.clearTimeout(job.timer);
    job.resolve(job.results as GetResult<unknown>[]);
  }
}
