/** Widgets that write the values of their PV into the page without rendering, paced by the frame queue. */

import { useEffect, useLayoutEffect, useState } from "react";

import { useClient } from "../react/index.js";
import { usePvStore } from "../react/pv.js";
import type { PvClient, Readable } from "../types.js";
import { conditionOf, unreachedText, type Condition } from "../widgets/condition.js";
import { Sight } from "../widgets/seen.js";
import { frameQueue } from "./frame_queue.js";
import { FIELDS, isUrgent, type WidgetData } from "./use_widget_pv.js";
import { writeBox } from "./box_state.js";
import type { WidgetProps } from "./widget.js";

/** What a widget writes of its PV. */
export interface LiveValue {
  readonly pv: WidgetData | undefined;
  /** `undefined` without a PV. */
  readonly condition: Condition | undefined;
  /** The present value; `undefined` while it isn't known. */
  readonly value: NonNullable<WidgetData["value"]> | undefined;
}

/** Writes all that a PV changes inside a widget's box, except what is right. */
export type WriteValue = (now: LiveValue, box: HTMLElement) => void;

/**
 * A function to use as the `boxRef` of a widget's box, whose attributes and content then follow the PV
 * without rendering. `write` is also called after each render. React must not render what it writes.
 * Out of view both happen at most every two seconds.
 */
export function useLiveBox(
  of: WidgetProps,
  write: WriteValue,
): (box: HTMLDivElement | null) => void {
  const client = useClient() as Partial<PvClient>;
  const store = usePvStore<WidgetData>(of.name, FIELDS, undefined);
  const [state] = useState(() => new LiveBox());
  const [failure, fail] = useState<Error>();
  useLayoutEffect(() => {
    state.show(of, write, store);
  });
  useEffect(() => state.follow(client, store, fail), [state, client, store]);
  // The widget's boundary says so in its place: it must not keep an old value.
  if (failure !== undefined) throw failure;
  return state.watch;
}

class LiveBox {
  #sight = new Sight();
  #box: HTMLDivElement | null = null;
  #of: WidgetProps | undefined;
  #write: WriteValue | undefined;
  #store: Readable<WidgetData | undefined> | undefined;
  #client: Partial<PvClient> = {};
  #seen: WidgetData | undefined;

  readonly watch = (box: HTMLDivElement | null): void => {
    this.#box = box;
    this.#sight.watch(box);
  };

  show(of: WidgetProps, write: WriteValue, store: Readable<WidgetData | undefined>): void {
    [this.#of, this.#write, this.#store] = [of, write, store];
    this.#now(true);
  }

  follow(
    client: Partial<PvClient>,
    store: Readable<WidgetData | undefined>,
    fail: (error: Error) => void,
  ): () => void {
    this.#client = client;
    const update = (): void => {
      try {
        this.#now(false);
      } catch (error) {
        fail(error instanceof Error ? error : new Error(String(error)));
      }
    };
    const tell = (): void => {
      frameQueue.add(update, isUrgent(this.#seen, store.getSnapshot()));
    };
    const ends = [
      store.subscribe(() => {
        this.#sight.tell(tell);
      }),
      // Says why no relay can be reached.
      client.connection?.subscribe(() => {
        if (this.#seen?.connection.connected !== true) this.#now(true);
      }),
    ];
    this.#now(true);
    return () => {
      for (const end of ends) end?.();
      this.#sight.forget();
      frameQueue.remove(update);
    };
  }

  #now(isRendered: boolean): void {
    const [box, of] = [this.#box, this.#of];
    if (box === null || of === undefined) return;
    const pv = this.#store?.getSnapshot();
    if (pv === this.#seen && !isRendered) return;
    this.#seen = pv;
    const isAway = pv === undefined || pv.connection.state === "relayLost";
    const unreached = isAway ? unreachedText(this.#client.connection?.getSnapshot()) : undefined;
    const whole = conditionOf(pv, pv?.connection.unresponsive === true, unreached);
    const condition = of.name === undefined ? undefined : whole;
    const value = whole.isPresent ? (pv?.value ?? undefined) : undefined;
    writeBox(box, of, condition);
    this.#write?.({ pv, condition, value }, box);
  }
}
