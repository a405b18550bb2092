/** The last minutes of a number. The curve has gaps where the value was unknown. */

import { useEffect, useRef, useState, type ReactNode } from "react";

import { useClient, usePv } from "../react/index.js";
import type { PvConnection, PvDisplay, PvTime, PvValue } from "../types.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { decimate } from "./decimate.js";
import { Frame, kindOf, Nothing } from "./Frame.js";
import { placePlot } from "./place_plot.js";
import type { Plot } from "./plot.js";

const SELECTION = `{
  value { string(units: true) number array structure text }
  display { description }
  ${CONDITION_FIELDS}
}`;

interface ChartData extends ConditionData {
  readonly value: Pick<PvValue, "string" | "number" | "array" | "structure" | "text"> | null;
  readonly display: Pick<PvDisplay, "description"> | null;
}

const POINT = "{ value { number } time { seconds } connection { connected unresponsive } }";

interface PointData {
  readonly value: Pick<PvValue, "number"> | null;
  readonly time: Pick<PvTime, "seconds"> | null;
  readonly connection: Pick<PvConnection, "connected" | "unresponsive">;
}

/** Interval at which the axis moves if no data arrives. */
const STEP_MS = 250;

export interface StripChartProps {
  /** The PV: a number. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** Length of the time axis, in seconds. @default 60 */
  readonly windowSeconds?: number;
  /** In pixels. @default 180 */
  readonly height?: number;
  /** Ends of the vertical axis. @default the range of the data */
  readonly yRange?: readonly [number, number];
  readonly staleAfterMs?: number;
}

/** A number over the IOC's time, from when the chart is first shown. Needs `uplot`. */
export function StripChart(props: StripChartProps): ReactNode {
  const { height = 180, label = props.name, name, staleAfterMs, windowSeconds = 60 } = props;
  const pv = usePv<ChartData>(name, SELECTION);
  const condition = useCondition(pv, staleAfterMs);
  const host = useRef<HTMLDivElement>(null);
  const client = useClient();
  const [low, high] = props.yRange ?? [undefined, undefined];
  const [problem, setProblem] = useState<string>();

  useEffect(() => {
    const point = client.pv<PointData>(name, POINT);
    const history = new History();
    let plot: Plot | undefined;
    const draw = (): void => {
      if (plot === undefined) return;
      const { times, values } = history.since(windowSeconds);
      const end = history.end;
      const points = decimate(values, plot.columns, (index) => times[index] ?? end);
      plot.draw(points, [end - windowSeconds, end]);
    };
    const take = (): void => {
      const data = point.getSnapshot();
      const at = data?.time == null ? undefined : data.time.seconds;
      const isPresent = data?.connection.connected === true && !data.connection.unresponsive;
      history.add(at, isPresent ? (data.value?.number ?? null) : null);
    };
    const end = point.subscribe(() => {
      take();
      draw();
    });
    take();
    const timer = setInterval(draw, STEP_MS);
    const yRange = low === undefined ? undefined : ([low, high] as const);
    const endPlot = placePlot(
      host.current,
      { height, isTime: true, yRange },
      (made) => {
        plot = made;
        draw();
      },
      setProblem,
    );
    return () => {
      clearInterval(timer);
      end();
      plot = undefined;
      endPlot();
    };
  }, [client, name, windowSeconds, height, low, high]);

  const value = pv?.value ?? null;
  const noCurve =
    value !== null &&
    value.number === null &&
    `A strip chart shows numbers; this is ${kindOf(value)}`;
  return (
    <Frame
      kind="strip"
      name={name}
      label={label}
      condition={condition}
      summary={pv?.value?.string ?? "–"}
      description={pv?.display?.description}
    >
      <Nothing why={problem ?? noCurve} />
      <div
        ref={host}
        className="pvwire-plot"
        role="img"
        aria-label={`${label}: curve of the last ${String(windowSeconds)} s`}
        style={{ height }}
      />
    </Frame>
  );
}

/** Points in the order of their time stamps, and gaps. */
class History {
  #times: number[] = [];
  #values: (number | null)[] = [];
  /** Offset from a time stamp to this machine's clock; an IOC's clock may differ. */
  #offset: number | undefined;

  /** The right end of the axis, on the IOC's clock. */
  get end(): number {
    return Date.now() / 1000 - (this.#offset ?? 0);
  }

  add(at: number | undefined, value: number | null): void {
    const last = this.#times.at(-1) ?? -Infinity;
    if (value === null || at === undefined) {
      if (this.#values.at(-1) != null) this.#push(Math.max(this.end, last), null);
      return;
    }
    const offset = Date.now() / 1000 - at;
    // The most recent update gives the best estimate of the clocks' difference.
    this.#offset = Math.min(this.#offset ?? Infinity, offset);
    if (at > last) this.#push(at, value);
    else if (at === last) this.#values[this.#values.length - 1] = value;
  }

  since(seconds: number): { times: readonly number[]; values: readonly (number | null)[] } {
    const from = this.end - seconds;
    // The last point before the window is kept, so that the line starts at the edge.
    const first = this.#times.findIndex((time) => time >= from);
    const drop = first < 0 ? this.#times.length - 1 : first - 1;
    if (drop > 0) {
      this.#times.splice(0, drop);
      this.#values.splice(0, drop);
    }
    return { times: this.#times, values: this.#values };
  }

  #push(at: number, value: number | null): void {
    this.#times.push(at);
    this.#values.push(value);
  }
}
