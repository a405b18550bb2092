/** One chart of a plot over time. It is made again for other traces or axes, and drawn for other values. */

import { useEffect, useRef, useState, type ReactNode } from "react";

import { Nothing } from "../widgets/Frame.js";
import { placePlot } from "../widgets/place_plot.js";
import { t } from "../texts.js";
import { createChart, type Chart, type ChartOptions } from "./chart.js";
import { moved, spanOf, zoomed, type TimeRange } from "./span.js";
import type { Span } from "./steps.js";
import { KnownPasts, type Trace } from "./traces.js";

/** A live chart moves this often. */
const STEP_MS = 250;

interface ChartViewProps extends Pick<
  ChartOptions,
  "axisWidth" | "hasLimits" | "isLog" | "isUtc" | "onCursor" | "onZoom" | "syncKey"
> {
  readonly traces: readonly Trace[];
  readonly range: TimeRange;
  readonly label: string;
  /** Called with the canvas, and with `undefined` when it ends. */
  readonly onCanvas: (canvas: HTMLCanvasElement | undefined) => void;
}

export function ChartView(props: ChartViewProps): ReactNode {
  const { axisWidth, hasLimits, isLog, isUtc, label, range, syncKey, traces } = props;
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart>(undefined);
  const [pasts] = useState(() => new KnownPasts());
  const latest = useRef(props);
  const [problem, setProblem] = useState<string>();
  /** What a chart can't change. */
  const shape = JSON.stringify([
    traces.map(({ choices, colour, limits, name, scale }) => [
      name,
      colour,
      scale,
      choices,
      limits,
    ]),
    [axisWidth, hasLimits, isLog, isUtc, syncKey],
  ]);

  useEffect(() => {
    latest.current = props;
  });

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    let timer: ReturnType<typeof setInterval> | undefined;
    const draw = (): void => {
      const now = Date.now();
      const { range, traces } = latest.current;
      const span = spanOf(range, now);
      chart.current?.draw(pasts.show(traces, span), span, now / 1000);
    };
    const end = placePlot(
      async () => {
        const { default: UPlot } = await import("uplot").catch((error: unknown) => {
          throw new Error(t`Plots need uPlot: npm install uplot. ${String(error)}`);
        });
        const { axisWidth, hasLimits, isLog, isUtc, syncKey, traces } = latest.current;
        return createChart(UPlot, element, traces, {
          axisWidth,
          hasLimits,
          isLog,
          isUtc,
          syncKey,
          onCursor: (time) => {
            latest.current.onCursor(time);
          },
          onZoom: (span) => {
            latest.current.onZoom(span);
          },
        });
      },
      (made) => {
        chart.current = made;
        latest.current.onCanvas(made.canvas);
        draw();
        timer = setInterval(() => {
          if (latest.current.range.kind === "live") draw();
        }, STEP_MS);
      },
      setProblem,
    );
    return () => {
      clearInterval(timer);
      if (chart.current !== undefined) latest.current.onCanvas(undefined);
      chart.current = undefined;
      end();
    };
  }, [shape, pasts]);

  const key = JSON.stringify(range);
  const histories = range.kind === "past" ? traces.map(({ history }) => history) : undefined;
  const before = useRef<string>(undefined);
  // A live chart is drawn by its clock: updates come more often.
  useEffect(() => {
    const isSame = key === before.current && histories === undefined;
    before.current = key;
    if (isSame) return;
    const now = Date.now();
    const span = spanOf(range, now);
    chart.current?.draw(pasts.show(traces, span), span, now / 1000);
  });

  useWheel(host, latest);
  return (
    <div
      ref={host}
      className="pvwire-plot pvwire-chart"
      role="group"
      aria-label={label}
      tabIndex={0}
      onKeyDown={({ key }) => {
        const span = spanOf(range, Date.now());
        const next = KEYS[key]?.(span);
        if (next !== undefined) props.onZoom(next);
      }}
    >
      <Nothing why={problem} />
    </div>
  );
}

const KEYS: Readonly<Record<string, (span: Span) => Span>> = {
  ArrowLeft: (span) => moved(span, -0.25),
  ArrowRight: (span) => moved(span, 0.25),
  "+": (span) => zoomed(span, 0.5),
  "-": (span) => zoomed(span, 2),
};

/** The wheel zooms with Ctrl and moves with Shift; without a key it scrolls the page. */
function useWheel(
  host: { readonly current: HTMLDivElement | null },
  latest: { readonly current: ChartViewProps },
): void {
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const turn = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const { onZoom, range } = latest.current;
      const span = spanOf(range, Date.now());
      const by = Math.sign(event.deltaY === 0 ? event.deltaX : event.deltaY);
      const over = element.querySelector(".u-over")?.getBoundingClientRect();
      const part = over === undefined ? 0.5 : (event.clientX - over.left) / over.width;
      const about = span.from + Math.min(1, Math.max(0, part)) * (span.to - span.from);
      onZoom(event.ctrlKey ? zoomed(span, by > 0 ? 1.5 : 1 / 1.5, about) : moved(span, by * 0.1));
    };
    element.addEventListener("wheel", turn, { passive: false });
    return () => {
      element.removeEventListener("wheel", turn);
    };
  }, [host, latest]);
}
