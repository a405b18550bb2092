/** Which widgets are in view: those of a chunk are found out together, because each one that is watched takes time of every frame. */

import { createContext } from "react";

import { Sight } from "../widgets/seen.js";
import { defaultsOf } from "./model/defaults.js";
import type { WidgetSource } from "./model/file.js";
import { scriptRules } from "./model/script.js";
import { childOf, textOf, type XmlNode } from "./model/xml.js";

type Listener = () => void;

/** Some widgets, of which either all are in view or none. */
export class ChunkSight {
  #sight = new Sight();
  #waiting = new Set<Listener>();

  /** The `ref` of an element around all of them. */
  readonly watch = this.#sight.watch;

  /** Calls the listener now, or out of view at most every two seconds. */
  tell(listener: Listener): void {
    this.#waiting.add(listener);
    this.#sight.tell(this.#call);
  }

  forget(listener: Listener): void {
    this.#waiting.delete(listener);
  }

  #call = (): void => {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const listener of waiting) listener();
  };
}

/** The chunk around a widget, if its widgets stay within its extent. */
export const SightContext = createContext<ChunkSight | undefined>(undefined);

/** The sight of one widget's box: that of its chunk, or its own. */
export class BoxSight {
  #own = new Sight();
  #shared: ChunkSight | undefined;

  constructor(shared: ChunkSight | undefined) {
    this.#shared = shared;
  }

  watch(box: Element | null): void {
    if (this.#shared === undefined) this.#own.watch(box);
  }

  tell(listener: Listener): void {
    (this.#shared ?? this.#own).tell(listener);
  }

  forget(listener: Listener): void {
    this.#shared?.forget(listener);
    this.#own.forget();
  }
}

/** Of fewer widgets nothing is painted: their elements are quick enough. */
export const MANY = 400;

/** Fewer widgets are watched one by one. */
const LEAST_WIDGETS = 4;

const SIDES = ["x", "y", "width", "height"] as const;

/** What moves a widget's box, or gives it the size of its content. */
const PLACING: ReadonlySet<string> = new Set([...SIDES, "auto_size"]);

/** Whether rules, or scripts that are rules, may move or resize it, or its content does. */
function isPlacedLater(node: XmlNode): boolean {
  const rules = [...(childOf(node, "rules")?.children ?? []), ...scriptRules(node).rules];
  return (
    rules.some(({ attributes }) => PLACING.has(attributes.prop_id ?? "")) ||
    (textOf(node, "auto_size")?.trim() ?? "false") !== "false"
  );
}

/** A place in the pixels of what the widgets are in. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

const boxes = new WeakMap<WidgetSource, { readonly box: Box | undefined }>();

/** The box of a widget as its file places it; `undefined` if macros, rules or its content do. */
export function boxOf(widget: WidgetSource): Box | undefined {
  let found = boxes.get(widget);
  if (found === undefined) boxes.set(widget, (found = { box: placedBox(widget) }));
  return found.box;
}

function placedBox({ node, type }: WidgetSource): Box | undefined {
  if (isPlacedLater(node)) return undefined;
  const [left = NaN, top = NaN, width = NaN, height = NaN] = SIDES.map((side) => {
    const text = textOf(node, side)?.trim() ?? "";
    return Number(text === "" ? (defaultsOf(type)?.[side] ?? 0) : text);
  });
  return Number.isFinite(left + top + width + height) ? { left, top, width, height } : undefined;
}

/** The box around boxes. */
export function around(boxes: readonly Box[]): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of boxes) {
    left = Math.min(left, box.left);
    top = Math.min(top, box.top);
    right = Math.max(right, box.left + box.width);
    bottom = Math.max(bottom, box.top + box.height);
  }
  return { left, top, width: right - left, height: bottom - top };
}

/**
 * The box around some widgets as their file places them; `undefined` if macros, rules or their content do, or if
 * it is larger than the window, because then it is seldom out of view as a whole.
 */
export function extentOf(widgets: readonly WidgetSource[]): Box | undefined {
  if (widgets.length < LEAST_WIDGETS) return undefined;
  const boxes = widgets.map(boxOf);
  if (!boxes.every((box) => box !== undefined)) return undefined;
  const extent = around(boxes);
  return extent.width <= innerWidth && extent.height <= innerHeight ? extent : undefined;
}
