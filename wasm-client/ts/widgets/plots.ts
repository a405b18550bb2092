/** What widgets with curves load with the first of them: the curve of an array, and that of a PV's last seconds. */

import type { PvClient } from "../types.js";
import { decimate } from "./decimate.js";
import { POINT_FIELDS, feed, type PointData } from "./feed.js";
import { History, STEP_MS, type ByArrival } from "./history.js";
import { createPlot } from "./plot.js";
import type { Range } from "./scale.js";

export interface Waveform {
  /** `yRange` are the ends of the vertical axis; otherwise they are those of the array. */
  readonly show: (array: ArrayLike<number | bigint>, yRange: Range | undefined) => void;
  readonly end: () => void;
}

export async function createWaveform(host: HTMLElement | null): Promise<Waveform> {
  if (host === null) return { show: () => undefined, end: () => undefined };
  const plot = await createPlot(host);
  return {
    show: (array, y) => {
      plot.draw(decimate(array, plot.columns), { x: [0, Math.max(1, array.length - 1)], y });
    },
    end: plot.end,
  };
}

const BOOLEANS = ["false", "true"] as const;

/** What a chart shows of a PV's history. */
export interface StripView {
  /** Length of the time axis. */
  readonly seconds: number;
  /** Ends of the vertical axis; otherwise the range of the data. */
  readonly yRange: Range | undefined;
  readonly isUtc: boolean | undefined;
}

export interface StripOptions {
  readonly client: PvClient;
  readonly name: string;
  /** Read each time the curve is drawn, so that a change keeps the history. */
  readonly view: () => StripView;
  /** Called at first and with each change: why values are placed by their arrival. */
  readonly onByArrival: (why: ByArrival | undefined) => void;
}

/** Draws the last seconds of a PV in `host` until `end` is called. */
export async function createStrip(
  host: HTMLElement | null,
  { client, name, onByArrival, view }: StripOptions,
): Promise<{ readonly end: () => void }> {
  if (host === null) return { end: () => undefined };
  const plot = await createPlot(host);
  const point = client.pv<PointData>(name, POINT_FIELDS);
  const history = new History();
  const end = new AbortController();
  const { show, take } = feed({
    client,
    name,
    point,
    history,
    signal: end.signal,
    seconds: () => view().seconds,
    onPast: (error) => {
      // Nothing is drawn where nothing is known; the tooltip has the reason.
      host.title = error?.message ?? "";
      draw();
    },
  });
  const draw = (): void => {
    const now = Date.now() / 1000;
    const { isUtc, seconds, yRange } = view();
    show(seconds);
    const { type = "Unknown", choices } = point.getSnapshot()?.display ?? {};
    plot.draw(history.curve(now, seconds, plot.columns), {
      x: [-seconds, 0],
      time: now - history.offset,
      isUtc,
      isWhole: /^U?Int/.test(type),
      choices: type === "Boolean" ? BOOLEANS : choices,
      y: yRange,
    });
  };
  let reported = history.byArrival;
  onByArrival(reported);
  const update = (): void => {
    take();
    if (history.byArrival !== reported) {
      reported = history.byArrival;
      onByArrival(reported);
    }
    draw();
  };
  const stop = point.subscribe(update);
  update();
  const timer = setInterval(draw, STEP_MS);
  return {
    end: () => {
      clearInterval(timer);
      end.abort();
      stop();
      plot.end();
    },
  };
}
