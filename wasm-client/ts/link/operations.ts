/** Puts and calls of one client: waiting and open ones, and their results. */

import type { Clock, Timer } from "../clock.js";
import type { Applied, Wasm } from "../store/core.js";
import { PutError } from "../errors.js";
import { readStructure } from "../store/node.js";
import type {
  PutManyOptions,
  PutOptions,
  PutResult,
  PutValue,
  PvField,
  RpcOptions,
  RpcResult,
} from "../types.js";
import { isOfPage } from "../pv/page_pv.js";
import { stageValue } from "../store/value.js";
import type { Link } from "./link.js";

/** Maximum number of open operations; the relay accepts 64 requests of any kind. */
const MAX_OPEN = 36;

/** Maximum number of puts in one message. */
const MAX_TOGETHER = 32;

/** The same as the relay's default. */
const DEFAULT_TIMEOUT_MS = 10_000;

/** Time allowed for the round trip in addition to the time that the relay waits. */
const GRACE_MS = 5000;

const DONE = 1;

/** In the order of the wire's numbers: the code, and whether something may have been written. */
const OUTCOMES: readonly (readonly [string, boolean])[] = [
  ["UNKNOWN", true],
  ["DONE", false],
  ["NOT_ALLOWED", false],
  ["NO_ACCESS", false],
  ["BAD_VALUE", false],
  ["NOT_CONNECTED", false],
  ["MOVED", false],
  ["FAILED", false],
  ["TIMED_OUT", true],
  ["INTERRUPTED", true],
  ["BAD_NAME", false],
  ["NOT_SUPPORTED", false],
  ["WITHHELD", false],
];

/** `data`: a service's answer, or a PV's value if it differs from the one put, with a message. */
type End =
  { readonly data: PvField | undefined; readonly message: string } | { readonly error: PutError };

/** Puts that are sent in one message. */
interface Group {
  readonly allPermitted: boolean;
}

interface Job {
  readonly name: string;
  /**
   * Returns the bytes of a call, or nothing for a put, which then belongs to the next message; or
   * the reason why it can't be made.
   */
  readonly make: (wasm: Wasm) => Uint8Array | PutError | undefined;
  /** Jobs of one group are consecutive. */
  readonly group: Group | undefined;
  /** Values outside the limits of the PV are refused. */
  readonly checkLimits: boolean;
  readonly ends: ((end: End, superseded: boolean) => void)[];
  /** It is replaced by a later unsent put of the same name. */
  readonly coalesce: boolean;
  /** Callers before this index were superseded. */
  readonly superseded: number;
  readonly timer: Timer;
}

export interface OperationsOptions {
  clock: Clock;
  link: Link;
  /** Only when the module is loaded. */
  wasm: () => Wasm;
  /** The slot that shows a PV, if there is one. */
  slotOf: (name: string) => number | undefined;
  putLocal: (name: string, value: PutValue) => Promise<PutResult>;
}

export class Operations {
  #options: OperationsOptions;
  #waiting: Job[] = [];
  #open = new Map<number, Job>();

  constructor(options: OperationsOptions) {
    this.#options = options;
  }

  /** PVs of the page are written at once, without the relay. */
  putMany(
    puts: readonly (readonly [name: string, value: PutValue])[],
    options: PutManyOptions,
  ): Promise<PutResult[]> {
    const { allPermitted = false, coalesce } = options;
    const count = puts.filter(([name]) => !isOfPage(name)).length;
    if (allPermitted && count > MAX_TOGETHER) {
      const message = `allPermitted is for ${String(MAX_TOGETHER)} PVs at most; nothing was sent`;
      const error = (name: string): PutError => new PutError(name, "BAD_VALUE", message, false);
      return Promise.resolve(puts.map(([name]) => ({ ok: false, error: error(name) })));
    }
    let group: Group | undefined;
    let index = 0;
    const results = puts.map(([name, value]) => {
      if (isOfPage(name)) return this.#options.putLocal(name, value);
      if (!coalesce && index % MAX_TOGETHER === 0) group = { allPermitted };
      index += 1;
      return this.put(name, value, options, group);
    });
    this.pump();
    return Promise.all(results);
  }

  /** A put of a `group` waits until the group is complete. */
  put(name: string, value: PutValue, options: PutOptions, group?: Group): Promise<PutResult> {
    const { coalesce = false, onlyIfUnchanged = false, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const slot = this.#options.slotOf(name);
    const make = ({ core }: Wasm): PutError | undefined => {
      const problem = stageValue(core, value);
      if (problem !== undefined) return new PutError(name, "BAD_VALUE", problem, false);
      const bound = onlyIfUnchanged ? (slot ?? -1) : undefined;
      const isShown = bound !== -1 && core.stage_put(name, options.wait ?? false, timeoutMs, bound);
      if (isShown) return undefined;
      const message = "onlyIfUnchanged needs a listener on the PV that has seen its present value";
      return new PutError(name, "NOT_CONNECTED", message, false);
    };
    return new Promise((resolve) => {
      const end = (end: End, superseded: boolean): void => {
        if ("error" in end) resolve({ ok: false, error: end.error });
        else if (end.message === "") resolve({ ok: true, superseded });
        else resolve({ ok: true, superseded, readback: end.data, message: end.message });
      };
      this.#add(name, make, end, timeoutMs, coalesce, group, options.checkLimits);
    });
  }

  rpc(
    name: string,
    values: Readonly<Record<string, PutValue>>,
    options: RpcOptions,
  ): Promise<RpcResult> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const make = (wasm: Wasm): Uint8Array | PutError => {
      wasm.core.no_arguments();
      for (const [argument, value] of Object.entries(values)) {
        const problem = stageValue(wasm.core, value);
        if (problem !== undefined) {
          return new PutError(name, "BAD_VALUE", `${argument}: ${problem}`, false);
        }
        wasm.core.argument(argument);
      }
      return wasm.core.rpc(name, timeoutMs);
    };
    return new Promise((resolve) => {
      const end = (end: End): void => {
        if ("error" in end) resolve({ ok: false, error: end.error });
        else resolve({ ok: true, data: end.data ?? null });
      };
      this.#add(name, make, end, timeoutMs, false);
    });
  }

  #add(
    name: string,
    make: Job["make"],
    end: Job["ends"][number],
    timeoutMs: number,
    coalesce: boolean,
    group?: Group,
    checkLimits = false,
  ): void {
    const ends = [end];
    let superseded = 0;
    if (coalesce) {
      const at = this.#waiting.findIndex((job) => job.coalesce && job.name === name);
      const before = at < 0 ? undefined : this.#waiting.splice(at, 1)[0];
      if (before !== undefined) {
        this.#options.clock.clearTimeout(before.timer);
        superseded = before.ends.length;
        ends.unshift(...before.ends);
      }
    }
    const timer = this.#options.clock.setTimeout(() => {
      this.#expire(job, timeoutMs);
    }, timeoutMs + GRACE_MS);
    const job: Job = { name, make, group, checkLimits, ends, coalesce, superseded, timer };
    this.#waiting.push(job);
    if (group === undefined) this.pump();
  }

  /** Sends as many operations as possible; without a connection, ends those that are waiting. */
  pump(): void {
    const { connection, isOpen } = this.#options.link;
    const { reason, state } = connection.getSnapshot();
    if (isOpen) this.#send();
    else if (state === "lost")
      this.#lost("RELAY_LOST", `the relay is out of reach (${reason ?? state})`);
    else if (state === "closed") this.#lost("CLOSED", reason ?? state);
  }

  #send(): void {
    const postponed: Job[] = [];
    for (let first: Job | undefined; (first = this.#waiting[0]) !== undefined;) {
      const { coalesce, group, name } = first;
      const end = this.#waiting.findIndex((job) => group === undefined || job.group !== group);
      const count = group === undefined ? 1 : end < 0 ? this.#waiting.length : end;
      // A group is sent as a whole.
      if (this.#open.size + count > MAX_OPEN) break;
      const jobs = this.#waiting.splice(0, count);
      if (coalesce && this.#isOpen(name)) postponed.push(first);
      else this.#waiting.unshift(...this.#sendTogether(jobs));
    }
    this.#waiting.unshift(...postponed);
  }

  /** Sends as many puts as fit in one message; returns the others. */
  #sendTogether(jobs: readonly Job[]): readonly Job[] {
    const wasm = this.#options.wasm();
    const { core } = wasm;
    const allPermitted = jobs[0]?.group?.allPermitted ?? false;
    const staged: Job[] = [];
    let bytes: Uint8Array | undefined;
    let isWithheld = false;
    for (const job of jobs) {
      const made = job.make(wasm);
      if (made instanceof PutError) {
        this.#end(job, { error: made });
        isWithheld = allPermitted;
      } else {
        bytes = made;
        staged.push(job);
      }
    }
    const isCall = bytes !== undefined;
    bytes ??= core.put(allPermitted, jobs[0]?.checkLimits ?? false);
    const taken = isCall ? Math.min(bytes.length, 1) : core.taken();
    if (isWithheld || (allPermitted && taken < staged.length)) {
      const why = isWithheld ? "another value can't be written" : "they don't fit in one message";
      for (const job of staged) {
        const error = new PutError(job.name, "WITHHELD", `nothing was written: ${why}`, false);
        this.#end(job, { error });
      }
      return [];
    }
    if (taken === 0 && staged[0] !== undefined) {
      const { name } = staged[0];
      const message = `it doesn't fit in the ${String(core.max_request_bytes())} bytes of the relay's longest request; nothing was sent`;
      this.#end(staged[0], { error: new PutError(name, "BAD_VALUE", message, false) });
      return staged.slice(1);
    }
    const sent = staged.slice(0, taken);
    sent.forEach((job, at) => this.#open.set(core.last_request() - taken + 1 + at, job));
    if (taken > 0) this.#options.link.send(bytes as Uint8Array<ArrayBuffer>);
    return staged.slice(taken);
  }

  #isOpen(name: string): boolean {
    for (const job of this.#open.values()) if (job.name === name) return true;
    return false;
  }

  /** A put or call was answered by the message in `data`. */
  answered({ arrays, replyTo: request }: Applied, data: ArrayBuffer): void {
    const wasm = this.#options.wasm();
    // The offset of a call's result is the second number of its row.
    const at = arrays[1];
    const job = this.#open.get(request);
    if (job === undefined) return;
    this.#open.delete(request);
    const outcome = wasm.core.outcome();
    if (outcome === DONE) {
      const value = at === undefined ? undefined : readStructure(data, at);
      this.#end(job, { data: value, message: wasm.core.request_error() });
    } else {
      const [code, mayBeWritten] = OUTCOMES[outcome] ?? ["UNKNOWN", true];
      const error = new PutError(job.name, code, wasm.core.request_error(), mayBeWritten);
      this.#end(job, { error });
    }
    this.pump();
  }

  /** A request was refused as a whole; returns `false` if it wasn't one of these. */
  refused(request: number, message: string): boolean {
    const first = this.#open.get(request);
    if (first === undefined) return false;
    for (const [id, job] of this.#open) {
      if (job !== first && (job.group === undefined || job.group !== first.group)) continue;
      this.#open.delete(id);
      this.#end(job, { error: new PutError(job.name, "NOT_SUPPORTED", message, false) });
    }
    this.pump();
    return true;
  }

  /** The connection was lost: waiting operations are not sent later. */
  #lost(code: "RELAY_LOST" | "CLOSED", reason: string): void {
    const [open, waiting] = [[...this.#open.values()], this.#waiting];
    this.#open.clear();
    this.#waiting = [];
    const end = (job: Job, what: string, mayBeWritten: boolean): void => {
      const message = `${reason}; ${what}`;
      this.#end(job, { error: new PutError(job.name, code, message, mayBeWritten) });
    };
    for (const job of open) end(job, "it was on its way and may have been done", true);
    for (const job of waiting) end(job, "nothing was sent", false);
  }

  #expire(job: Job, timeoutMs: number): void {
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    for (const [request, open] of this.#open) if (open === job) this.#open.delete(request);
    const sent = at < 0;
    const rest = sent ? "; it may have been done" : "; nothing was sent";
    const message = `no answer within ${String(timeoutMs)} ms${rest}`;
    this.#end(job, { error: new PutError(job.name, "TIMED_OUT", message, sent) });
    this.pump();
  }

  #end(job: Job, end: End): void {
    this.#options.clock.clearTimeout(job.timer);
    job.ends.forEach((tell, index) => {
      tell(end, index < job.superseded);
    });
  }
}
