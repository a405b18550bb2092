/** Results of a subscription: complete ones first, then what changed. */

import { ALL_PARTS, DESCRIBES, type ObjectPlan } from "../pv/fields.js";
import { PvHandle, type PvOwner } from "../pv/pv.js";
import { settled } from "./readers.js";

type Shown = Record<string, unknown>;

/** One PV as one subscription sees it. */
class Watch {
  readonly handle: PvHandle;
  #owner: PvOwner;
  #mask: number;
  /** Keys of what is an object or null. */
  #objects: readonly string[];
  #told: Shown | undefined;

  constructor(owner: PvOwner, id: string, plan: ObjectPlan) {
    const { fields, keys, mask } = plan;
    this.handle = new PvHandle(owner, id, plan);
    this.handle.prepare();
    // Until there is enough to show, whatever comes may bring it.
    this.handle.mask = (ALL_PARTS & ~DESCRIBES) | mask;
    this.#owner = owner;
    this.#mask = mask;
    this.#objects = keys.filter((_, at) => typeof fields[at] === "object");
  }

  /** What is to be told now; nothing when none of it is new. Objects that are as before are null. */
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

/** Tells of one PV. Gives a function that ends it. */
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

/** Tells of many PVs: of all that changed in one flush at once. */
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
      // The others of this flush follow before the microtask.
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
