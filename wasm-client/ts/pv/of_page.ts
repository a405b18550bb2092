/** The PVs of one client that the page computes without the relay: `loc://` PVs and formulas. */

import type { Clock } from "../clock.js";
import { PvError } from "../errors.js";
import type { Wasm } from "../store/core.js";
import { loadPage, Page } from "../store/page.js";
import type { ClientOptions, GetResult, PutResult, PutValue, PvConnection } from "../types.js";
import type { Selection } from "./plan.js";
import { Formulas } from "./formula.js";
import { Locals } from "./local.js";
import { failedPut, type PagePv } from "./page_pv.js";
import { isLocal, PvHandle, type PvOwner } from "./pv.js";

/** What shows whether a PV has a value. */
const PROBED = "{ value { float } connection { connected state reason } }";

interface Probed {
  readonly value: object | null;
  readonly connection: Pick<PvConnection, "connected" | "state" | "reason">;
}

const DEFAULT_TIMEOUT_MS = 5000;

/** Why nothing can be read of the relay now: the code and the reason. */
export type Away = readonly [code: string, reason: string] | undefined;

export class OfPage {
  #locals: Locals;
  #formulas: Formulas;
  #owner: PvOwner;
  #clock: Clock;
  /** Checks of the open reads. */
  #reads = new Set<() => void>();

  private constructor(owner: PvOwner, clock: Clock, onChange: () => void) {
    const page = new Page(Math.random());
    this.#locals = new Locals(page, clock, onChange);
    this.#formulas = new Formulas(page, owner, clock, onChange);
    this.#owner = owner;
    this.#clock = clock;
  }

  /** `onChange` is called when a flush is needed. */
  static async load(
    { pageWasm }: ClientOptions,
    owner: PvOwner,
    clock: Clock,
    onChange: () => void,
  ): Promise<OfPage> {
    await loadPage(pageWasm);
    return new OfPage(owner, clock, onChange);
  }

  /** Called when a PV gets its first listener, or another slot. */
  attach(pv: PagePv): void {
    if (pv.slot === undefined) return;
    if (isLocal(pv.name)) this.#locals.attach(pv, pv.slot);
    else this.#formulas.attach(pv, pv.slot);
  }

  detach(pv: PagePv): void {
    this.#locals.detach(pv);
    this.#formulas.detach(pv);
  }

  /** Called when a PV has listeners again. */
  resume(): void {
    this.#formulas.resume();
  }

  /** Evaluates the formulas whose inputs have changed. */
  flush(wasm: Wasm): void {
    this.#formulas.flush(wasm);
    for (const check of this.#reads) check();
  }

  put(name: string, value: PutValue): PutResult {
    if (!isLocal(name)) return failedPut(name, "NO_ACCESS", "a formula can't be written");
    return this.#locals.put(name, value);
  }

  /** Listens to a PV until it has a value. A formula that needs the relay fails while that is `away`. */
  get(
    name: string,
    { selection, timeoutMs = DEFAULT_TIMEOUT_MS }: { selection?: Selection; timeoutMs?: number },
    away: () => Away,
  ): Promise<GetResult<unknown>> {
    const shown = new PvHandle(this.#owner, name, selection);
    const probe = new PvHandle(this.#owner, name, PROBED);
    return new Promise((resolve) => {
      const ends: (() => void)[] = [];
      const end = (result: GetResult<unknown>): void => {
        for (const each of ends) each();
        resolve(result);
      };
      const fail = (code: string, message: string): void => {
        end({ name, ok: false, error: new PvError(name, code, message) });
      };
      const check = (): void => {
        const { connection, value } = probe.getSnapshot() as Probed;
        const { connected, reason, state } = connection;
        if (state === "refused") fail("REFUSED", reason ?? "");
        else if (connected && value !== null) end({ name, ok: true, data: shown.getSnapshot() });
      };
      // Called in each flush: the loss of the relay plans one, and so does a new formula.
      const checkRelay = (): void => {
        const why = away();
        const { entry } = probe;
        if (why !== undefined && entry && this.#formulas.needsRelay(entry as PagePv)) fail(...why);
      };
      const timer = this.#clock.setTimeout(() => {
        fail("TIMED_OUT", `no value within ${String(timeoutMs)} ms`);
      }, timeoutMs);
      ends.push(
        shown.subscribe(() => undefined),
        probe.subscribe(check),
        () => {
          this.#clock.clearTimeout(timer);
          this.#reads.delete(checkRelay);
        },
      );
      this.#reads.add(checkRelay);
      // The PV may already have a value, because it has other listeners.
      check();
      checkRelay();
    });
  }
}
