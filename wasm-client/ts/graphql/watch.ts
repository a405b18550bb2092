/** Results of a subscription: complete ones first, then only changes. */

import { ALL_PARTS, DESCRIBES, type ObjectPlan } from "../pv/fields.js";
import { PvHandle, type PvOwner } from "../pv/pv.js";
import { settled } from "./readers.js";

type Shown = Record<string, unknown>;

/** One PV of one subscription. */
class Watch {
  readonly handle: PvHandle;
  #owner: PvOwner;
  #mask: number;
  /** Keys of fields whose value is an object or null. */
  #objects: readonly string[];
  #told: Shown | undefined;

  constructor(owner: PvOwner, id: string, plan: ObjectPlan) {
    const { fields, keys, mask } = plan;
    this.handle = new PvHandle(owner, id, plan);
    this.handle.prepare();
    // Until there is enough data to show, any part may complete it.
    this.handle.mask = (ALL_PARTS & ~DESCRIBES) | mask;
    this.#owner = owner;
    this.#mask = mask;
    this.#objects = keys.filter((_, at) => typeof fields[at] === "object");
  }

  /** The next result; `undefined` if nothing changed. Unchanged objects are null. */
  next(): object | undefined {
    const { handle } = this;
    const before = this.#told;
    if (before === undefined) {
      if (settled(this.#owner.slotOf(handle), this.#owner.columns()) !== true) return undefined;
      handle.mask = this.#mask;
    }
    const now = handle.getSnapshot() as Shown;
    this.#told = now;
    if (before === undefined) return now;
    if (now === before) return undefined;
    let news: Shown | undefined;
    for (const key of this.#objects) {
      if (now[key] !== before[key] || now[key] === null) continue;
      news ??= { ...now };
      news[key] = null;
    }
    return news ?? now;
  }
}

/** Reports the results of one PV. Returns a function that ends it. */
export function watchOne(
  owner: PvOwner,
  id: string,
  plan: ObjectPlan,
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
  plan: ObjectPlan,
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
