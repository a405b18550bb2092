/** A chart of a day whose points are all known: how soon it is drawn, whether it has every peak, and how it pans. */

import { createRoot } from "react-dom/client";
import { createClient } from "pvwire";
import { PvProvider } from "pvwire/react";
import { HistoryPlot, TimeRangeProvider, useTimeRange, type TimeRange } from "pvwire/plots";
import "pvwire/widgets.css";
import "pvwire/plots.css";

/** A day that a recording of the load client has: numbers of updates, ten a second, and the first one's time. */
export interface Day {
  readonly url: string;
  readonly name: string;
  readonly steps: number;
  readonly beginMs: number;
}

/** After a click. */
export interface Drawn {
  readonly ms: number;
  /** Columns of pixels that have no pixel of the curve at their largest or smallest point. */
  readonly lost: number;
  readonly columns: number;
}

export interface Panned {
  readonly framesPerS: number;
  readonly longestMs: number;
  readonly moves: number;
  /** Columns with a curve, of the frames whose pixels were read. */
  readonly withCurve: number;
}

const STEP_MS = 100;
const PATIENCE_MS = 10_000;

/** A pixel of a curve may be so far from where it should be: lines are antialiased, and begin between pixels. */
const NEAR = 2;

/** The chart pans over six hours and turns after this number of moves, each a tenth of what it shows. */
const PAN_MS = 6 * 3_600_000;
const TURN = 15;
/** Reading pixels takes as long as drawing them. */
const LOOK_EVERY = 60;

const scattered = (number: number): number => Math.imul(number, 2_654_435_761) >>> 0;

/** The same formula as the load client's. */
function curve(step: number): number {
  const noise = (scattered(step) >>> 24) / 256;
  const triangle = 10 * (1 - Math.abs((step % 86_400) / 43_200 - 1));
  const kind = scattered(step ^ 0x5eed) % 2503;
  const peak = kind === 0 ? 10 + (step % 7) : kind === 1 ? -10 - (step % 5) : 0;
  return triangle + noise + peak;
}

function Choices({ ranges }: { readonly ranges: Readonly<Record<string, TimeRange>> }) {
  const [, setRange] = useTimeRange();
  return Object.entries(ranges).map(([id, range]) => (
    <button
      key={id}
      id={id}
      onClick={() => {
        setRange(range);
      }}
    >
      {id}
    </button>
  ));
}

const click = (id: string): void => document.getElementById(id)?.click();

/** Shows a live chart; resolves when it is there. */
export async function showChart({ beginMs, name, steps, url }: Day): Promise<void> {
  const middle = beginMs + (STEP_MS * steps) / 2;
  const about = (ms: number): TimeRange => ({
    kind: "past",
    fromMs: middle - ms / 2,
    toMs: middle + ms / 2,
  });
  const ranges = { day: about(STEP_MS * steps), "six hours": about(PAN_MS) };
  createRoot(document.getElementById("root") as HTMLElement).render(
    <PvProvider client={createClient({ url })}>
      <TimeRangeProvider>
        <Choices ranges={ranges} />
        <HistoryPlot names={[name]} height={700} isUtc />
      </TimeRangeProvider>
    </PvProvider>,
  );
  const began = performance.now();
  while (document.querySelector(".pvwire-chart .u-over") === null) {
    if (performance.now() - began > PATIENCE_MS) throw new Error("there is no chart");
    await frame();
  }
}

const frame = async (): Promise<number> => await new Promise(requestAnimationFrame);

/** Clicks, and waits until each column of pixels has all that its points reach. */
export async function drawDay({ steps }: Day): Promise<Drawn> {
  const all = Float64Array.from({ length: steps }, (_, step) => curve(step));
  // What is read after each frame must take little time: it delays the next one.
  let reach = reachOf(all, read().length);
  await frame();
  const began = performance.now();
  click("day");
  for (;;) {
    await frame();
    const ms = performance.now() - began;
    const extents = read();
    const columns = extents.length;
    // The scale's labels take more or less of the width.
    if (columns !== reach.least.length) reach = reachOf(all, columns);
    const lost = missing(reach, extents);
    if (lost === 0 || ms > PATIENCE_MS) return { ms, lost, columns };
  }
}

type Extent = readonly [top: number, bottom: number] | undefined;

/** The first and the last row of each column that the curve has; `undefined`: it isn't there. */
function read(): readonly Extent[] {
  const canvas = document.querySelector<HTMLCanvasElement>(".pvwire-chart canvas");
  const over = document.querySelector(".pvwire-chart .u-over")?.getBoundingClientRect();
  const context = canvas?.getContext("2d");
  if (canvas == null || over === undefined || context == null) return [];
  const at = canvas.getBoundingClientRect();
  const [left, top] = [Math.round(over.left - at.left), Math.round(over.top - at.top)];
  const [width, height] = [Math.round(over.width), Math.round(over.height)];
  const { data } = context.getImageData(left, top, width, height);
  const pixels = new Uint32Array(data.buffer);
  const firsts = new Int32Array(width).fill(-1);
  const lasts = new Int32Array(width).fill(-1);
  for (let place = 0, row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1, place += 1) {
      const pixel = pixels[place] ?? 0;
      const [opacity, blue, red] = [pixel >>> 24, (pixel >>> 16) & 0xff, pixel & 0xff];
      if (opacity < 64 || blue < red + 40) continue;
      if (firsts[column] === -1) firsts[column] = row;
      lasts[column] = row;
    }
  }
  return Array.from(firsts, (first, column) =>
    first < 0 ? undefined : [first, lasts[column] ?? 0],
  );
}

/** The smallest and the largest point of each column. */
interface Reach {
  readonly least: Float64Array;
  readonly most: Float64Array;
}

function reachOf(all: Float64Array, columns: number): Reach {
  const least = new Float64Array(columns).fill(Infinity);
  const most = new Float64Array(columns).fill(-Infinity);
  for (let step = 0; step < all.length; step += 1) {
    const value = all[step] ?? 0;
    const column = Math.min(columns - 1, Math.floor((step / all.length) * columns));
    least[column] = Math.min(least[column] ?? 0, value);
    most[column] = Math.max(most[column] ?? 0, value);
  }
  return { least, most };
}

/** Columns in which a largest or smallest point is not drawn. */
function missing({ least, most }: Reach, extents: readonly Extent[]): number {
  const columns = extents.length;
  const rows = extents.filter((each) => each !== undefined);
  if (rows.length === 0) return columns;
  const highest = Math.min(...rows.map(([top]) => top));
  const lowest = Math.max(...rows.map(([, bottom]) => bottom));
  const [low, high] = [Math.min(...least), Math.max(...most)];
  const rowOf = (value: number): number =>
    highest + ((high - value) / (high - low)) * (lowest - highest);
  let lost = 0;
  for (let column = 0; column < columns; column += 1) {
    const near = extents
      .slice(Math.max(0, column - 1), column + 2)
      .filter((each) => each !== undefined);
    const top = Math.min(...near.map(([first]) => first));
    const bottom = Math.max(...near.map(([, last]) => last));
    const isWhole =
      top <= rowOf(most[column] ?? 0) + NEAR && bottom >= rowOf(least[column] ?? 0) - NEAR;
    if (!isWhole) lost += 1;
  }
  return lost;
}

/** Turns the wheel with Shift at each frame of the screen. */
export async function pan(ms: number): Promise<Panned> {
  click("six hours");
  const chart = document.querySelector(".pvwire-chart");
  const drawnBy = performance.now() + 1000;
  while (performance.now() < drawnBy) await frame();
  let [moves, longestMs, columns, drawn] = [0, 0, 0, 0];
  const began = await frame();
  let before = began;
  while (before - began < ms) {
    const deltaY = Math.floor((moves + TURN / 2) / TURN) % 2 === 0 ? 100 : -100;
    chart?.dispatchEvent(
      new WheelEvent("wheel", { deltaY, shiftKey: true, bubbles: true, cancelable: true }),
    );
    moves += 1;
    const now = await frame();
    longestMs = Math.max(longestMs, now - before);
    before = now;
    if (moves % LOOK_EVERY === 0) {
      const extents = read();
      columns += extents.length;
      drawn += extents.filter((each) => each !== undefined).length;
    }
  }
  return {
    framesPerS: (1000 * moves) / (before - began),
    longestMs,
    moves,
    withCurve: drawn / columns,
  };
}
