/** One chart of the page Plots. It is made again for other traces or axes, and drawn for other values. */

import { useEffect, useRef, type ReactNode } from "react";

import { createChart, type Chart, type ChartOptions } from "./chart";
import { moved, spanOf, zoomed, type TimeView } from "./span";
import type { Span } from "./steps";
import type { Trace } from "./traces";

/** A live chart moves this often. */
const STEP_MS = 250;

interface ChartViewProps extends Pick<
  ChartOptions,
  "axisWidth" | "hasLimits" | "isLog" | "isUtc" | "onCursor" | "onZoom" | "syncKey"
> {
  readonly traces: readonly Trace[];
  readonly view: TimeView;
  readonly label: string;
  /** Called with the canvas, and with `undefined` when it ends. */
  readonly onCanvas: (canvas: HTMLCanvasElement | undefined) => void;
}

export function ChartView(props: ChartViewProps): ReactNode {
  const { axisWidth, hasLimits, isLog, isUtc, label, syncKey, traces, view } = props;
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart>(undefined);
  const latest = useRef(props);
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
    if (host.current === null) return;
    const { axisWidth, hasLimits, isLog, isUtc, onCanvas, syncKey, traces } = latest.current;
    const made = createChart(host.current, traces, {
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
    chart.current = made;
    onCanvas(made.canvas);
    const draw = (): void => {
      const now = Date.now();
      const { traces, view } = latest.current;
      made.draw(traces, spanOf(view, now), now / 1000);
    };
    draw();
    const timer = setInterval(() => {
      if (latest.current.view.kind === "live") draw();
    }, STEP_MS);
    return () => {
      clearInterval(timer);
      onCanvas(undefined);
      made.end();
      chart.current = undefined;
    };
  }, [shape]);

  const key = view.kind === "past" ? `${String(view.from)} ${String(view.to)}` : view.seconds;
  const histories = view.kind === "past" ? traces.map(({ history }) => history) : undefined;
  const before = useRef<unknown>(undefined);
  // A live chart is drawn by its clock: updates come more often.
  useEffect(() => {
    const isSame = JSON.stringify(key) === before.current && histories === undefined;
    before.current = JSON.stringify(key);
    if (isSame) return;
    const now = Date.now();
    chart.current?.draw(traces, spanOf(view, now), now / 1000);
  });

  useWheel(host, latest);
  return (
    <div
      ref={host}
      className="plot-chart"
      role="group"
      aria-label={label}
      tabIndex={0}
      onKeyDown={({ key }) => {
        const span = spanOf(view, Date.now());
        const next = KEYS[key]?.(span);
        if (next !== undefined) props.onZoom(next);
      }}
    />
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
      const { onZoom, view } = latest.current;
      const span = spanOf(view, Date.now());
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
