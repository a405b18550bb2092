/** Up to 20 PVs over time: live or past, in one chart or below each other. */

import { useId, useRef, useState, type ReactNode } from "react";

import { usePvHistory, usePvs } from "../react/index.js";
import { t } from "../texts.js";
import { axisSize, padded } from "./chart.js";
import { ChartView } from "./ChartView.js";
import { csvOfTraces } from "./export.js";
import { useIsDark } from "./ground.js";
import { tickTexts } from "./numbers.js";
import { endOf, nowSeconds, pastOf, requestOf, spanOf } from "./span.js";
import { rangeOf, stepsOf, type Span } from "./steps.js";
import { useRequested, useSpan, useTimeRange } from "./time.js";
import { Tools, type PlotOptions } from "./Tools.js";
import { TraceList } from "./TraceList.js";
import { MAX_TRACES, META, traceOf, type Meta, type Trace } from "./traces.js";

/** The properties of `HistoryPlot`. */
export interface HistoryPlotProps {
  /** The PVs: numbers and choices. The first 20 are drawn. */
  readonly names: readonly string[];
  /** Least height of the charts, in pixels; in a flex column they fill the rest. @default 320 */
  readonly height?: number;
  /** Times in UTC. @default false, for the user's time zone */
  readonly isUtc?: boolean;
  /** How curves are drawn, if the application keeps it. @default what the user chooses */
  readonly options?: PlotOptions;
  /** Called when the user chooses how curves are drawn. */
  readonly onOptions?: (options: PlotOptions) => void;
  /** The address of a PV's page, for the names in the list. @default names without links */
  readonly hrefOf?: (name: string) => string;
  /** Called when the user removes a PV. @default PVs can't be removed */
  readonly onRemove?: (name: string) => void;
}

/** About the most updates of a PV that are drawn: each column of a wide chart shows four. */
const POINTS = 8000;

/** The list below a live chart is renewed this often. */
const LIST_EVERY_MS = 500;

/** Room for a number and the units beside it. */
const AXIS_WIDTH = 84;
const UNITS_WIDTH = 18;
const WIDTH_STEP = 12;

const TOGGLES = ["isStacked", "isLog", "hasLimits"] as const;

/**
 * PVs over the time of the page's `TimeRangeProvider`, with what the relay and its archiver keep and live updates.
 * Dragging in a chart zooms for the whole page, and so do the wheel with Ctrl and the keys + and -; the wheel with Shift
 * and the arrow keys move. A list below has the values at the cursor. Needs `uplot`.
 */
export function HistoryPlot(props: HistoryPlotProps): ReactNode {
  const { height = 320, hrefOf, isUtc = false, names, onOptions, onRemove } = props;
  const [own, setOwn] = useState<PlotOptions>({});
  const options = props.options ?? own;
  const { hasLimits = false, isLog = false, isStacked = false } = options;
  const [range, setRange] = useTimeRange();
  const host = useRef<HTMLDivElement>(null);
  const all = useTraces(names.slice(0, MAX_TRACES), useIsDark(host));
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<number>();
  const syncKey = useId();
  const canvases = useRef(new Map<string, HTMLCanvasElement>());
  const drawn = all.filter(({ isNumber, name }) => isNumber && !hidden.has(name));
  const groups = isStacked ? drawn.map((trace) => [trace]) : [drawn];
  const span = useSpan(range, LIST_EVERY_MS);
  // In steps, because a chart is made again for another width. Below each other, charts begin at the same place.
  const labels = drawn.flatMap((trace) => labelsOf(trace, span));
  const needed = WIDTH_STEP * Math.ceil((axisSize(labels) + UNITS_WIDTH) / WIDTH_STEP);
  return (
    <div ref={host} className="pvwire-history-plot">
      <Tools
        options={options}
        change={(next) => {
          setOwn(next);
          onOptions?.(next);
        }}
        toggles={TOGGLES}
        isUtc={isUtc}
        traces={all.filter(({ name }) => !hidden.has(name))}
        csv={(traces) => csvOfTraces(traces, spanOf(range, Date.now()))}
        canvases={(traces) =>
          ["all", ...traces.map(({ name }) => name)].flatMap(
            (key) => canvases.current.get(key) ?? [],
          )
        }
      >
        {t`Drag to zoom in; Ctrl and wheel zoom, Shift and wheel move`}
      </Tools>
      <div
        className="pvwire-charts"
        data-stacked={isStacked || undefined}
        style={{ minHeight: `${String(height)}px` }}
      >
        {groups.map((group) => {
          const key = isStacked ? (group[0]?.name ?? "") : "all";
          if (group.length === 0) return null;
          return (
            <ChartView
              key={key}
              traces={group}
              range={range}
              label={
                isStacked
                  ? t`Curve of ${key}`
                  : group.length === 1
                    ? t`Curves of 1 PV, listed below`
                    : t`Curves of ${group.length} PVs, listed below`
              }
              axisWidth={isStacked ? Math.max(AXIS_WIDTH, needed) : undefined}
              hasLimits={hasLimits}
              isLog={isLog}
              isUtc={isUtc}
              syncKey={syncKey}
              onCursor={(at) => {
                // At a time to come no value is known: the list shows the present ones.
                setCursor(at === undefined || at > nowSeconds() ? undefined : at);
              }}
              onZoom={(zoomed) => {
                setRange(pastOf(zoomed));
              }}
              onCanvas={(canvas) => {
                if (canvas === undefined) canvases.current.delete(key);
                else canvases.current.set(key, canvas);
              }}
            />
          );
        })}
      </div>
      <TraceList
        traces={all}
        hidden={hidden}
        span={span}
        isUtc={isUtc}
        at={cursor}
        isNow={cursor === undefined && endOf(range) === undefined}
        hrefOf={hrefOf}
        onRemove={onRemove}
        toggle={(name) => {
          const next = new Set(hidden);
          if (!next.delete(name)) next.add(name);
          setHidden(next);
        }}
      />
    </div>
  );
}

/** The PVs with their past; more of it is wanted only for another range. */
function useTraces(names: readonly string[], isDark: boolean): readonly Trace[] {
  const [range] = useTimeRange();
  const histories = usePvHistory(names, requestOf(useRequested(range), POINTS));
  const metas = usePvs<Meta>(names, META);
  return names.map((name, at) => {
    const history = histories.find((each) => each.name === name);
    return traceOf(name, at, isDark, metas[at], history);
  });
}

/** Labels about as long as the vertical axis of a trace will have. */
function labelsOf({ choices, history }: Trace, span: Span): readonly string[] {
  if (choices !== undefined) return choices;
  const range = history === undefined ? undefined : rangeOf(stepsOf(history), span);
  if (range === undefined) return [];
  const [low, high] = padded(...range, 0);
  return tickTexts([low, high], 10 ** Math.floor(Math.log10((high - low) / 4)));
}
