/** Results of a subscription: complete ones first, then only changes. */

import { ALL_PARTS, DESCRIBES, type Plan } from "../pv/plan.js";
import { PvHandle, type PvOwner } from "../pv/pv.js";
import { newsOf, type News } from "./news.js";

/** One PV of one subscription. */
class Watch {
  readonly handle: PvHandle;
  #owner: PvOwner;
  #news: News;
  #plan: Plan;
  /** The values of the last result. */
  #told: unknown[] = [];
  #isSettled = false;

  constructor(owner: PvOwner, id: string, plan: Plan) {
    this.handle = new PvHandle(owner, id, plan);
    this.handle.prepare();
    // Until there is enough data to show, any part may complete it.
    this.handle.reads((ALL_PARTS & ~DESCRIBES) | plan.mask);
    this.#owner = owner;
    this.#news = newsOf(plan);
    this.#plan = plan;
  }

  /** The next result; `undefined` if nothing changed. Unchanged objects are null. */
  next(): object | undefined {
    const { handle } = this;
    const owner = this.#owner;
    const slot = handle.slot ?? owner.slotOf(handle);
    if (!this.#isSettled) {
      if (!slot.wasm.core.settled(slot.index)) return undefined;
      this.#isSettled = true;
      handle.reads(this.#plan.mask);
      handle.parts = ALL_PARTS;
    }
    const { parts } = handle;
    if (parts === 0) return undefined;
    const results = slot.wasm.begin();
    results.add(this.#plan, slot, slot.index, parts);
    results.run();
    const news = this.#news(slot, results, parts, this.#told);
    handle.parts = 0;
    return news;
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
    const next = watch.next();
    if (next !== undefined) tell(next);
  };
  const stop = watch.handle.subscribe(look);
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
      const next = watch.next();
      if (next !== undefined) news.push(next);
    }
    changed.clear();
    if (news.length > 0 && !ended) tell(news);
  };
  const stops = ids.map((id) => {
    const watch = new Watch(owner, id, plan);
    const stop = watch.handle.subscribe(() => {
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
