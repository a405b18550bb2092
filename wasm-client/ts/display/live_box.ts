/** Widgets that write the values of their PV into the page without rendering, paced by the frame queue. */

import {
  useContext,
  useLayoutEffect,
  useMemo,
  useState,
  type CSSProperties,
  type ReactNode,
} from "react";

import { useClient } from "../react/index.js";
import { NO_PV } from "../react/pv.js";
import type { ConnectionSnapshot, PvClient, Readable } from "../types.js";
import { conditionOf, unreachedText, type Condition } from "../widgets/condition.js";
import { severityOf, writeBox, writeStyles } from "./box_state.js";
import { frameQueue } from "./frame_queue.js";
import { CanvasesContext, type Canvases } from "./canvases.js";
import type { Band, Cell, Painter } from "./painting.js";
import { boxStyle, cssText } from "./place.js";
import { BoxSight, SightContext, type ChunkSight } from "./sight.js";
import { FIELDS, isUrgent, type WidgetData } from "./use_widget_pv.js";
import type { WidgetProps } from "./widget.js";
import { Box } from "./widgets/Box.js";

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

/** The look of a live box. */
export interface BoxLook {
  readonly className: string;
  readonly style?: CSSProperties;
}

/**
 * Makes a widget's box with this content, whose attributes and content then follow the PV without rendering.
 * `write` is also called after each render. React must not render what it writes. Out of view both happen at
 * most every two seconds. With `painterOf`, which changes only if what is painted of the same value does,
 * present values of large displays are painted.
 */
export function useLiveBox(
  of: WidgetProps,
  { className, style }: BoxLook,
  write: WriteValue,
  painterOf?: (code: Canvases["code"]) => Painter,
): (content: ReactNode) => ReactNode {
  const client = useClient();
  const chunk = useContext(SightContext);
  const canvases = useContext(CanvasesContext);
  const painter = useMemo(() => canvases && painterOf?.(canvases.code), [canvases, painterOf]);
  const { name } = of;
  const { missing, source } = of.widget;
  const band = missing === "" ? canvases?.bands.get(source) : undefined;
  const store: Store = useMemo(
    () => (name === undefined ? NO_PV : client.pv<WidgetData>(name, FIELDS)),
    [client, name],
  );
  const state = useMemo(() => new LiveBox(chunk), [chunk]);
  const [failure, fail] = useState<Error>();
  // First: what a PV without listeners shows would be made again.
  useLayoutEffect(() => state.follow(store, client, fail), [state, client, store]);
  useLayoutEffect(() => {
    state.show({
      of,
      css: cssText(boxStyle(of.props, style)),
      write,
      store,
      client,
      painter,
      band,
    });
  });
  // The widget's boundary says so in its place: it must not keep an old value.
  if (failure !== undefined) throw failure;
  // Not as an element: there may be thousands.
  return (children) =>
    Box({
      ...of,
      boxRef: state.watch,
      isLive: true,
      className: `${className} pvwire-display-sized`,
      children,
    });
}

type Store = Readable<WidgetData | undefined>;

/** Tests of applications may have a client without it. */
type Connection = Partial<Pick<PvClient, "connection">>;

/** What a box shows, and how. */
interface Live {
  readonly of: WidgetProps;
  readonly css: string;
  readonly write: WriteValue;
  readonly store: Store;
  readonly client: Connection;
  readonly painter: Painter | undefined;
  readonly band: Band | undefined;
}

class LiveBox {
  #sight: BoxSight;
  #box: HTMLDivElement | null = null;
  #live: Live | undefined;
  #cell: Cell | undefined;
  #seen: WidgetData | undefined;
  #condition: Condition | undefined;
  #border: Condition["severity"];

  constructor(chunk: ChunkSight | undefined) {
    this.#sight = new BoxSight(chunk);
  }

  readonly watch = (box: HTMLDivElement | null): void => {
    this.#box = box;
    this.#sight.watch(box);
  };

  show(live: Live): void {
    if (live.band !== this.#live?.band) {
      this.#cell?.hide();
      this.#cell = live.band?.cell();
    }
    this.#live = live;
    if (this.#box !== null) writeStyles(this.#box, live.css);
    this.#now(true);
  }

  follow(store: Store, { connection }: Connection, fail: (error: Error) => void): () => void {
    const update = (): void => {
      try {
        this.#now(false);
      } catch (error) {
        fail(error instanceof Error ? error : new Error(String(error)));
      }
    };
    frameQueue.join(update);
    const tell = (): void => {
      frameQueue.add(update, isUrgent(this.#seen, store.getSnapshot()));
    };
    const ends = [
      store.subscribe(() => {
        this.#sight.tell(tell);
      }),
      // Says why no relay can be reached.
      connection &&
        listenTo(connection, () => {
          if (this.#seen?.connection.connected !== true) this.#now(true);
        }),
    ];
    return () => {
      for (const end of ends) end?.();
      this.#sight.forget(tell);
      frameQueue.remove(update);
      this.#cell?.hide();
    };
  }

  #now(isRendered: boolean): void {
    const [box, live] = [this.#box, this.#live];
    if (box === null || live === undefined) return;
    const { of, store } = live;
    const pv = store.getSnapshot();
    const before = this.#seen;
    if (pv === before && !isRendered) return;
    this.#seen = pv;
    if (isRendered || !isAlike(before, pv)) {
      this.#condition = of.name === undefined ? undefined : this.#conditionNow(live);
      this.#border = severityOf(of, this.#condition);
      writeBox(box, of, this.#condition);
    }
    const now = this.#value;
    // What is rendered is written at once: React knows nothing of what was.
    if (isRendered || !this.#paint(box, live, now)) this.#write();
    if (isRendered) this.#paint(box, live, now);
  }

  get #value(): LiveValue {
    const [pv, condition] = [this.#seen, this.#condition];
    return {
      pv,
      condition,
      value: condition?.isPresent === true ? (pv?.value ?? undefined) : undefined,
    };
  }

  /** Whether it is painted, and its content follows later. */
  #paint(box: HTMLElement, { of, painter }: Live, now: LiveValue): boolean {
    const cell = this.#cell;
    if (cell === undefined || painter === undefined) return false;
    const isPlain = now.condition?.isPresent === true && !now.condition.isStale;
    const seen = isPlain && of.widget.lost === undefined ? painter.seenOf(now) : undefined;
    if (seen !== undefined) {
      cell.show(box, painter, seen, this.#border, this.#write);
      return true;
    }
    cell.hide();
    return false;
  }

  /** Writes the content. */
  #write = (): void => {
    if (this.#box !== null && this.#live !== undefined) {
      this.#live.write(this.#value, this.#box);
    }
  };

  #conditionNow({ client, store }: Live): Condition {
    const pv = store.getSnapshot();
    const isAway = pv === undefined || pv.connection.state === "relayLost";
    const unreached = isAway ? unreachedText(client.connection?.getSnapshot()) : undefined;
    return conditionOf(pv, pv?.connection.unresponsive === true, unreached);
  }
}

/** Whether both have the same condition for sure: that of a present PV tells no time. */
const isAlike = (one: WidgetData | undefined, other: WidgetData | undefined): boolean =>
  one?.status === other?.status &&
  one?.connection === other?.connection &&
  one?.connection.connected === true &&
  !one.connection.unresponsive &&
  (one.value === null) === (other?.value === null);

const shared = new WeakMap<Readable<ConnectionSnapshot>, Set<() => void>>();

/** One listener of the connection for all boxes: there may be thousands. It stays, because most pages have more displays. */
function listenTo(connection: Readable<ConnectionSnapshot>, listener: () => void): () => void {
  const listeners = shared.get(connection) ?? new Set();
  if (!shared.has(connection)) {
    shared.set(connection, listeners);
    connection.subscribe(() => {
      for (const each of [...listeners]) each();
    });
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}
