/** Results of a subscription: complete ones first, then only changes. */

import { ALL_PARTS, DESCRIBES, type Plan } from "../pv/plan.js";
import { PvHandle, type PvOwner } from "../pv/pv.js";
import type { Results } from "../store/results.js";
import type { Slot } from "../store/slot.js";
import { newsOf, type News } from "./news.js";

/** One PV of one subscription: each flush reads it with all others. */
class Watch extends PvHandle {
  #of: PvOwner;
  #makes: News;
  #planned: Plan;
  /** The values of the last result. */
  #before: unknown[] = [];
  /** The next result to report, and those after it: there is rarely more than one. */
  #news: object | undefined;
  #later: object[] = [];
  #isSettled = false;

  constructor(owner: PvOwner, id: string, plan: Plan) {
    super(owner, id, plan);
    this.prepare();
    // Until there is enough data to show, any part may complete it.
    this.reads((ALL_PARTS & ~DESCRIBES) | plan.mask);
    this.#of = owner;
    this.#makes = newsOf(plan);
    this.#planned = plan;
  }

  override take(results: Results, parts: number): void {
    this.#take(this.slot as Slot, results, parts);
  }

  #take(slot: Slot, results: Results, parts: number): void {
    const news = this.#makes(slot, results, parts, this.#before);
    if (this.#news === undefined) this.#news = news;
    else if (news !== undefined) this.#later.push(news);
  }

  /** The next result; `undefined` if nothing changed. Unchanged objects are null. */
  report(): object | undefined {
    if (this.parts !== 0) this.#look();
    const news = this.#news;
    this.#news = this.#later.length === 0 ? undefined : this.#later.shift();
    return news;
  }

  /** Reads the first result, or the PV in another slot. */
  #look(): void {
    const slot = this.slot ?? this.#of.slotOf(this);
    if (!this.#isSettled) {
      if (!slot.wasm.core.settled(slot.index)) return;
      this.#isSettled = true;
      this.isAlwaysRead = true;
      this.reads(this.#planned.mask);
      this.parts = ALL_PARTS;
    }
    const { heardMs, results } = slot.wasm;
    results.add(this.#planned, slot, this.parts);
    results.run(heardMs);
    this.#take(slot, results, this.parts);
    this.parts = 0;
  }
}

/** Reports the results of one PV. Returns a function that ends it. */
export function watchOne(
  owner: PvOwner,
  id: string,
  plan: Plan,
  tell: (channel: object) => void,
): () => void {
  const watch = new Watch(owner, id, plan);
  const look = (): void => {
    for (let next = watch.report(); next !== undefined; next = watch.report()) tell(next);
  };
  const stop = watch.subscribe(look);
  look();
  return stop;
}

/** Reports the results of many PVs: everything that changed in one flush at once. */
export function watchMany(
  owner: PvOwner,
  ids: readonly string[],
  plan: Plan,
  tell: (channels: readonly object[]) => void,
): () => void {
  const changed = new Set<Watch>();
  let ended = false;
  const look = (): void => {
    const news: object[] = [];
    for (const watch of changed) {
      for (let next = watch.report(); next !== undefined; next = watch.report()) news.push(next);
    }
    changed.clear();
    if (news.length > 0 && !ended) tell(news);
  };
  const stops = ids.map((id) => {
    const watch = new Watch(owner, id, plan);
    const stop = watch.subscribe(() => {
      // The other PVs of this flush follow before the microtask.
      if (changed.size === 0) queueMicrotask(look);
      changed.add(watch);
    });
    changed.add(watch);
    return stop;
  });
  look();
  return () => {
    ended = true;
    for (const stop of stops) stop();
  };
}
