/** Curves that go up and down in each column of pixels: a stroke takes 100 ms for one, filled columns 2 ms. */

import type uPlot from "uplot";

/** A curve is dense if it is longer than this many times its width: a stroke takes time for its length. */
const LONG = 8;

/** Columns of a curve that goes to and fro over all of its width are no faster than a stroke. */
const MANY = 8;

/** A curve as columns of pixels, each from the highest to the lowest point of a line while it is there. */
export class Columns {
  readonly #count: number;
  /** The column, top and bottom of each, in pixels. */
  readonly #columns: number[] = [];
  #length = 0;
  #points = 0;
  #last: readonly [column: number, y: number] | undefined;

  constructor(
    readonly left: number,
    width: number,
  ) {
    this.#count = Math.ceil(width) + 1;
  }

  get isDense(): boolean {
    return (
      this.#length > LONG * this.#count &&
      this.#columns.length < 3 * (this.#points + MANY * this.#count)
    );
  }

  /** Adds a line to this point, in pixels. */
  add(x: number, y: number): void {
    const column = Math.round(x - this.left);
    const [from, before] = this.#last ?? [column, y];
    this.#last = [column, y];
    this.#points += 1;
    this.#length += Math.abs(y - before);
    const way = Math.sign(column - from);
    if (way === 0) {
      this.#widen(column, before, y);
      return;
    }
    if (this.#columns.length > 3 * MANY * (this.#points + this.#count)) return;
    const step = (y - before) / Math.abs(column - from);
    const inside = (at: number): number => Math.max(-1, Math.min(this.#count, at));
    const end = inside(column);
    for (let at = inside(from); at !== end; at += way) {
      const begun = before + step * Math.abs(at - from);
      this.#widen(at + way, begun, begun + step);
    }
  }

  /** A gap: the next point begins a line. */
  endLine(): void {
    this.#last = undefined;
  }

  fill(context: CanvasRenderingContext2D, thickness: number): void {
    const size = Math.max(1, Math.round(thickness));
    const half = size >> 1;
    const left = Math.round(this.left) - half;
    for (let at = 0; at < this.#columns.length; at += 3) {
      const [column = 0, top = 0, bottom = 0] = this.#columns.slice(at, at + 3);
      const height = Math.round(bottom - top) + size;
      context.fillRect(left + column, Math.round(top) - half, size, height);
    }
  }

  #widen(column: number, one: number, other: number): void {
    const columns = this.#columns;
    const at = columns.length - 3;
    const [top, bottom] = [Math.min(one, other), Math.max(one, other)];
    if (columns[at] === column) {
      columns[at + 1] = Math.min(columns[at + 1] ?? top, top);
      columns[at + 2] = Math.max(columns[at + 2] ?? bottom, bottom);
    } else if (column >= 0 && column < this.#count) columns.push(column, top, bottom);
  }
}

/** How uPlot draws curves: with straight lines, or as columns where they are dense and have no dashes. */
export function pathsOf(UPlot: typeof uPlot): uPlot.Series.PathBuilder {
  const lines = UPlot.paths.linear?.();
  return (plot, index, from, to) => {
    const { bbox, ctx, data, series } = plot;
    const { dash, scale = "y", stroke, width = 1 } = series[index] ?? {};
    const columns = new Columns(bbox.left, bbox.width);
    for (let at = from; at <= to; at += 1) {
      const number = data[index]?.[at];
      if (number === null) columns.endLine();
      else if (number !== undefined) {
        columns.add(plot.valToPos(data[0][at] ?? 0, "x", true), plot.valToPos(number, scale, true));
      }
    }
    if (!columns.isDense || (dash !== undefined && dash.length > 0)) {
      return lines?.(plot, index, from, to) ?? null;
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = typeof stroke === "function" ? stroke(plot, index) : (stroke as string);
    columns.fill(ctx, width * devicePixelRatio);
    ctx.restore();
    return null;
  };
}
