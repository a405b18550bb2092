/**
 * Present values of large displays are painted on canvases: thousands of elements whose content changes ten times a
 * second take a browser longer to style, lay out and draw than it has. The elements remain, transparent, for screen
 * readers, for searching and copying, and their content follows within two seconds. They are shown whenever a value isn't
 * the present one, or isn't as simple as its type's usual one.
 */

import { Sight } from "../widgets/seen.js";
import { writeAttribute } from "./box_state.js";
import type { WidgetSource } from "./model/file.js";
import type { Place } from "./place.js";
import { around, boxOf, MANY, type Box } from "./sight.js";
import type { WidgetPv } from "./use_widget_pv.js";

/** Number of widgets of one canvas: a browser takes a whole canvas again if something on it has changed. */
const BAND = 400;

/** Larger canvases take too much memory, in the display's pixels: the elements of their widgets are shown. */
const MAX_AREA = 2_000_000;

/** How far borders of alarms are outside their boxes. */
const EDGE = 4;

/** How borders of severities are drawn, as by the style sheet: lines of a width, their distances, and dashes. */
const BORDERS: Readonly<
  Record<string, readonly [width: number, distances: readonly number[], dashes: readonly number[]]>
> = {
  MINOR: [2, [1], []],
  MAJOR: [1, [0.5, 3.5], []],
  INVALID: [3, [1.5], [6]],
};

/** If more change at once, all borders of a canvas are drawn again: each one alone looks for those beside it. */
const MOST_BORDERS = 20;

const isDrawn = (border?: string): boolean => String(border) in BORDERS;

type Context = CanvasRenderingContext2D;

/** What may be painted of a present value in a widget's box, in place of its content. */
export interface Painter {
  readonly place: Place;
  /** What is to be seen, for `paint`; `undefined` if the content shows more than is painted. */
  readonly seenOf: (now: WidgetPv) => string | undefined;
  /** The style of a text: to set it takes as long as to paint one. */
  readonly font?: string;
  /** Paints what the widget has said is to be seen in its room, which is empty before and begins at 0, 0. */
  readonly paint: (context: Context, seen: string, room: Room) => void;
}

/** The room in the display's pixels; it has whole pixels of the screen, `ratio` to one of the display. */
export interface Room {
  readonly width: number;
  readonly height: number;
  readonly ratio: number;
}

/** A box on a canvas. */
export class Cell {
  readonly #band: Band;
  readonly #behind = new Sight();
  #element: HTMLElement | undefined;
  painter: Painter | undefined;
  seen = "";
  border: string | undefined;

  constructor(band: Band) {
    this.#band = band;
    // As if it were out of view: within two seconds.
    this.#behind.changed(false);
  }

  /** Paints what is to be seen and the border of an alarm; `follow` writes the element's content later. */
  show(element: HTMLElement, painter: Painter, seen: string, border?: string, follow = none): void {
    this.#behind.tell(follow);
    if (this.painter === painter && this.seen === seen && this.border === border) return;
    const isChanged = this.painter !== painter || this.border !== border;
    if (isChanged && [this.border, border].some(isDrawn)) this.#band.bordered.add(this);
    this.#element = element;
    Object.assign(this, { painter, seen, border });
    writeAttribute(element, "data-painted", "true");
    this.#band.paint(this);
  }

  /** The element is shown again. */
  hide(): void {
    this.#behind.forget();
    if (this.#element === undefined) return;
    writeAttribute(this.#element, "data-painted", undefined);
    this.#band.clear(this);
    this.#element = this.painter = this.border = undefined;
  }
}

const none = (): void => undefined;

/** Two canvases, over the widgets that are painted on them: that of the values is over that of the borders. */
export class Band {
  readonly #box: Box;
  readonly #cells = new Set<Cell>();
  /** Those with another border. */
  readonly bordered = new Set<Cell>();
  /** What is painted when the page's other changes are made: a browser styles the page before a text is painted. */
  readonly #waiting = new Set<Cell>();
  #values: Context | undefined;
  #borders: Context | undefined;
  /** Colours of severities: to ask a style for one takes as long as to paint a text. */
  #colours: Readonly<Record<string, string>> = {};
  #font: string | undefined;
  #ratio = 1;
  /** Its corner in pixels of the screen. */
  #corner: readonly number[] = [];

  /** The box around those of its widgets. */
  constructor(box: Box) {
    this.#box = box;
  }

  /** The canvases are there, with `ratio` of their pixels to one of the display. */
  use(canvases: readonly HTMLCanvasElement[], ratio: number): void {
    const { height, left, top, width } = this.#box;
    // Their pixels are those of the screen.
    const low = [left - EDGE, top - EDGE].map((at) => Math.floor(at * ratio));
    const high = [left + width + EDGE, top + height + EDGE].map((at) => Math.ceil(at * ratio));
    const [x = 0, y = 0] = (this.#corner = low);
    const [w, h] = [(high[0] ?? 0) - x, (high[1] ?? 0) - y];
    const [l, t, across, down] = [x, y, w, h].map((of) => `${String(of / ratio)}px`);
    for (const canvas of canvases) {
      Object.assign(canvas, { width: w, height: h });
      Object.assign(canvas.style, { left: l, top: t, width: across, height: down });
      const style = getComputedStyle(canvas);
      const colours = Object.keys(BORDERS).map((severity) => {
        const name = `--pvwire-display-${severity.toLowerCase()}`;
        return [severity, style.getPropertyValue(name)] as const;
      });
      this.#colours = Object.fromEntries(colours);
    }
    [this.#borders, this.#values] = canvases.map((canvas) => canvas.getContext("2d") ?? undefined);
    this.#font = undefined;
    this.#ratio = ratio;
    this.#border();
    for (const cell of this.#cells) this.paint(cell);
  }

  /** A box on it. */
  cell(): Cell {
    return new Cell(this);
  }

  paint(cell: Cell): void {
    this.#cells.add(cell);
    if (this.#waiting.size === 0) queueMicrotask(this.#paintAll);
    this.#waiting.add(cell);
  }

  clear(cell: Cell): void {
    this.#cells.delete(cell);
    this.#wipe(this.#values, cell, 0);
    if (isDrawn(cell.border)) this.#border(cell);
  }

  #paintAll = (): void => {
    if (this.bordered.size > MOST_BORDERS) this.#border();
    else for (const cell of this.bordered) this.#border(cell);
    this.bordered.clear();
    for (const cell of this.#waiting) {
      const context = this.#values;
      const { painter, seen } = cell;
      if (context === undefined || painter === undefined) continue;
      const ratio = this.#ratio;
      const [x, y, width, height] = this.#wipe(context, cell, 0);
      if (painter.font !== undefined && this.#font !== painter.font) {
        context.font = this.#font = painter.font;
      }
      context.setTransform(ratio, 0, 0, ratio, x, y);
      painter.paint(context, seen, { width: width / ratio, height: height / ratio, ratio });
    }
    this.#waiting.clear();
  };

  /** Empties a box and what is so far around it. */
  #wipe(context: Context | undefined, cell: Cell, edge: number): Rectangle {
    const room = this.#roomOf(cell, edge);
    context?.setTransform(1, 0, 0, 1, 0, 0);
    context?.clearRect(...room);
    return room;
  }

  /** Draws the border of a widget, and those that reach into its place; or all. */
  #border(cell?: Cell): void {
    const context = this.#borders;
    if (context === undefined) return;
    context.save();
    if (cell) {
      context.beginPath();
      context.rect(...this.#wipe(context, cell, EDGE * this.#ratio));
      context.clip();
    } else context.reset();
    for (const other of this.#cells) {
      const { border = "" } = other;
      const drawn = BORDERS[border];
      if (drawn === undefined || (cell && !areNear(cell, other))) continue;
      const [thickness, distances, dashes] = drawn;
      context.strokeStyle = this.#colours[border] ?? "";
      context.lineWidth = thickness * this.#ratio;
      context.setLineDash(dashes.map((dash) => dash * this.#ratio));
      for (const distance of distances) {
        context.strokeRect(...this.#roomOf(other, distance * this.#ratio));
      }
    }
    context.restore();
  }

  /** A box in pixels of the canvas, rounded as the browser does, so that boxes beside each other share none. */
  #roomOf({ painter }: Cell, edge: number): Rectangle {
    const { height, width, x, y } = painter?.place ?? { x: 0, y: 0, width: 0, height: 0 };
    const [first = 0, highest = 0] = this.#corner;
    const [left = 0, top = 0, right = 0, bottom = 0] = [x, y, x + width, y + height].map((at) =>
      Math.round(at * this.#ratio),
    );
    const [across, down] = [right - left + 2 * edge, bottom - top + 2 * edge];
    return [left - first - edge, top - highest - edge, across, down];
  }
}

/** Whether borders of both may be over each other. */
function areNear({ painter: one }: Cell, { painter: other }: Cell): boolean {
  if (one === undefined || other === undefined) return false;
  const [a, b] = [one.place, other.place];
  return (
    a.x <= b.x + b.width + 2 * EDGE &&
    b.x <= a.x + a.width + 2 * EDGE &&
    a.y <= b.y + b.height + 2 * EDGE &&
    b.y <= a.y + a.height + 2 * EDGE
  );
}

type Rectangle = readonly [x: number, y: number, width: number, height: number];

/** Types with a value that may be painted. */
const PAINTED = /^(?:textupdate|(?:multi_state_)?led|progressbar|tank)$/;

/** The canvases for widgets, if they are many. */
export function bandsOf(widgets: readonly WidgetSource[]): ReadonlyMap<WidgetSource, Band> {
  const bands = new Map<WidgetSource, Band>();
  const later = new Map<number, Box[]>();
  const free: [WidgetSource, Box][] = [];
  // A canvas is over all widgets: what later ones cover isn't painted.
  for (const widget of [...widgets].reverse()) {
    const box = boxOf(widget);
    if (box === undefined || box.height > MAX_AREA) break;
    let isFree = PAINTED.test(widget.type);
    for (let line = Math.floor(box.top / LINE); line * LINE < box.top + box.height; line += 1) {
      const others = later.get(line) ?? [];
      isFree &&= !others.some((other) => overlap(box, other));
      later.set(line, [...others, box]);
    }
    if (isFree) free.push([widget, box]);
  }
  for (let from = 0; free.length >= MANY && from < free.length; from += BAND) {
    const some = free.slice(from, from + BAND);
    const box = around(some.map(([, each]) => each));
    const band = new Band(box);
    if (box.width * box.height > MAX_AREA) continue;
    for (const [widget] of some) bands.set(widget, band);
  }
  return bands;
}

/** Boxes over each other are found by lines of this height. */
const LINE = 64;

const overlap = (one: Box, other: Box): boolean =>
  one.left < other.left + other.width &&
  other.left < one.left + one.width &&
  one.top < other.top + other.height &&
  other.top < one.top + one.height;
