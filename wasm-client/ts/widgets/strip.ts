/** The curve of a strip chart, from its PV's updates. Loaded with the first chart. */

import type { Pv, PvClient, PvConnection, PvDisplay, PvTime, PvValue } from "../types.js";
import { History, type ByArrival } from "./history.js";
import { createPlot } from "./plot.js";
import type { Range } from "./scale.js";

const SELECTION = `{
  value { number }
  time { seconds }
  display { type choices }
  connection { state connected unresponsive readable lastHeard }
}`;

interface PointData {
  readonly value: Pick<PvValue, "number"> | null;
  readonly time: Pick<PvTime, "seconds"> | null;
  readonly display: Pick<PvDisplay, "type" | "choices"> | null;
  readonly connection: Pick<
    PvConnection,
    "state" | "connected" | "unresponsive" | "readable" | "lastHeard"
  >;
}

/** Interval at which the axis moves if no data arrives. */
const STEP_MS = 250;

const BOOLEANS = ["false", "true"] as const;

/** What a chart shows of a PV's history. */
export interface StripView {
  /** Length of the time axis. */
  readonly seconds: number;
  /** Ends of the vertical axis; otherwise the range of the data. */
  readonly yRange: Range | undefined;
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
  const point = client.pv<PointData>(name, SELECTION);
  const history = new History();
  const take = taker(point, history);
  const draw = (): void => {
    const now = Date.now() / 1000;
    const { seconds, yRange } = view();
    const { type = "Unknown", choices } = point.getSnapshot()?.display ?? {};
    plot.draw(history.curve(now, seconds, plot.columns), {
      x: [-seconds, 0],
      time: now - history.offset,
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
      stop();
      plot.end();
    },
  };
}

const isPresent = ({ connection }: PointData): boolean =>
  connection.connected && connection.readable && !connection.unresponsive;

/** A function that adds what is new of a PV to its history. */
function taker(point: Pv<PointData>, history: History): () => void {
  let last: PointData | undefined;
  return () => {
    const data = point.getSnapshot();
    const before = last;
    last = data;
    if (data === undefined || data.connection.state === "connecting") return;
    const now = Date.now() / 1000;
    const value = isPresent(data) ? data.value : null;
    if (value === null) {
      const { lastHeard } = data.connection;
      const heard = lastHeard === null ? undefined : Date.parse(lastHeard) / 1000;
      history.add(now, { value: undefined, stamp: undefined, heard });
      return;
    }
    const isSame = before?.value === value && before.time === data.time && isPresent(before);
    // Another part has changed.
    if (isSame) return;
    history.add(now, { value: value.number ?? NaN, stamp: data.time?.seconds });
  };
}
