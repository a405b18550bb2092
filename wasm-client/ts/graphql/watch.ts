/** How does a subscription go on? Complete results first, then what changed. */

import type { Client } from "../client.js";
import { ALL_PARTS, type ObjectPlan } from "../fields.js";
import { PvHandle } from "../pv.js";
import type { Watched, WatchPlan } from "./plans.js";

type Shown = Record<string, unknown>;

/** One PV as one subscription sees it. */
class Watch {
  readonly handle: PvHandle;
  #plan: ObjectPlan;
  #keys: readonly string[];
  #told: Shown | undefined;

  constructor(client: Client, id: string, { channel, keys, watch }: WatchPlan) {
    this.handle = new PvHandle(client, id, watch);
    this.handle.prepare();
    // Until there is enough to show, whatever comes may bring it.
    this.handle.mask = ALL_PARTS;
    this.#plan = channel;
    this.#keys = keys;
  }

  /** What is to be told now; nothing when none of it is new. */
  next(): object | undefined {
    const { channel, settled } = this.handle.getSnapshot() as Watched;
    const now = channel as Shown;
    const before = this.#told;
    if (before === undefined) {
      if (!settled) return undefined;
      this.handle.mask = this.#plan.mask;
      this.#told = now;
      return now;
    }
    if (now === before) return undefined;
    this.#told = now;
    const { build, fields } = this.#plan;
    return build(
      this.#keys.map((key, at) => {
        const isObject = typeof fields[at] === "object";
        return isObject && now[key] === before[key] ? null : now[key];
      }),
    );
  }
}

/** Tells of one PV. Gives a function that ends it. */
export function watchOne(
  client: Client,
  id: string,
  plan: WatchPlan,
  tell: (channel: object) => void,
): () => void {
  const watch = new Watch(client, id, plan);
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
  client: Client,
  ids: readonly string[],
  plan: WatchPlan,
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
    const watch = new Watch(client, id, plan);
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
