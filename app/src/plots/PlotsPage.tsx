/** Up to 20 PVs over time: live or past, in one chart or below each other. */

import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { usePvHistory, usePvs } from "pvwire/react";

import { useClock } from "../clock";
import { pvsText } from "../counts";
import { download } from "../csv";
import { ListBox } from "../ListBox";
import { setTo, type Route } from "../route";
import { useNames } from "../TablePage";
import { dateText } from "../times";
import { useTitle } from "../title";
import { ChartView } from "./ChartView";
import { axisSize } from "./chart";
import { csvOfTraces, pngOf } from "./export";
import { tickTexts } from "./numbers";
import { padded } from "./range";
import { showSpan, spanOf, viewOf, type TimeView } from "./span";
import { rangeOf, stepsOf, type Span } from "./steps";
import { TimeControl } from "./TimeControl";
import { TraceList } from "./TraceList";
import { MAX_TRACES, META, traceOf, type Meta, type Trace } from "./traces";
import "../style/plots.css";

/** About the most updates of a PV that are drawn: each column of a wide chart shows four. */
const POINTS = 8000;

/** The list below a live chart is renewed this often. */
const LIST_EVERY_MS = 500;

/** Room for a number and the units beside it. */
const AXIS_WIDTH = 84;
const UNITS_WIDTH = 18;
const WIDTH_STEP = 12;

export default function PlotsPage({ route }: { readonly route: Route }): ReactNode {
  const names = useNames(route);
  const shown = names.slice(0, MAX_TRACES);
  useTitle(
    names.length === 1 ? `Plot of ${names[0] ?? ""}` : `Plot of ${pvsText(shown.length)}`,
    "NONE",
  );
  return (
    <div className="plots-page">
      <h1>Plots</h1>
      <ListBox key={names.join()} route={route} names={names} />
      {names.length > MAX_TRACES && (
        <p className="note" role="status">
          The first {MAX_TRACES} of {pvsText(names.length)} are drawn.
        </p>
      )}
      {shown.length > 0 && <Plots route={route} names={shown} />}
    </div>
  );
}

function useIsDark(): boolean {
  const query = useMemo(() => window.matchMedia("(prefers-color-scheme: dark)"), []);
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const change = (): void => {
      setDark(query.matches);
    };
    query.addEventListener("change", change);
    return () => {
      query.removeEventListener("change", change);
    };
  }, [query]);
  return isDark;
}

/** An interval that ends later than now goes on live. */
function endOf(seconds: number): { readonly to?: number } {
  const toMs = Math.round(1000 * seconds);
  return toMs <= Date.now() ? { to: toMs } : {};
}

/** The history of the PVs for a view; more of it is wanted only for another view. */
function useTraces(names: readonly string[], view: TimeView): readonly Trace[] {
  const end = view.kind === "live" ? {} : endOf(view.to);
  const range =
    view.kind === "live"
      ? { from: `-${String(Math.ceil(view.seconds) + 10)}s`, points: POINTS }
      : { from: Math.round(1000 * view.from), ...end, points: POINTS };
  const histories = usePvHistory(names, range);
  const metas = usePvs<Meta>(names, META);
  const isDark = useIsDark();
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

interface PlotsProps {
  readonly route: Route;
  readonly names: readonly string[];
}

function Plots({ names, route }: PlotsProps) {
  const { settings } = route;
  const view = viewOf(route);
  const all = useTraces(names, view);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<number>();
  const traces = all.filter(({ name }) => !hidden.has(name));
  const isStacked = settings.stack === "1";
  const drawn = traces.filter(({ isNumber }) => isNumber);
  const groups = isStacked ? drawn.map((trace) => [trace]) : [drawn];
  // Below each other, charts begin at the same place.
  const canvases = useRef(new Map<string, HTMLCanvasElement>());
  const span = spanOf(view, useClock(view.kind === "live" ? LIST_EVERY_MS : undefined));
  const labels = drawn.flatMap((trace) => labelsOf(trace, span));
  // In steps, because a chart is made again for another width.
  const needed = WIDTH_STEP * Math.ceil((axisSize(labels) + UNITS_WIDTH) / WIDTH_STEP);
  const axisWidth = Math.max(AXIS_WIDTH, needed);
  return (
    <section className="panel plots" aria-label="Charts">
      <TimeControl route={route} view={view} />
      <Options route={route} traces={traces} view={view} canvases={canvases} />
      <div className="plot-charts" data-stacked={isStacked || undefined}>
        {groups.map((group) => {
          const key = isStacked ? (group[0]?.name ?? "") : "all";
          if (group.length === 0) return null;
          return (
            <ChartView
              key={key}
              traces={group}
              view={view}
              label={
                isStacked ? `Curve of ${key}` : `Curves of ${pvsText(group.length)}, listed below`
              }
              axisWidth={isStacked ? axisWidth : undefined}
              hasLimits={settings.limits === "1"}
              isLog={settings.log === "1"}
              isUtc={settings.utc === "1"}
              syncKey="plots"
              onCursor={(at) => {
                // At a time to come no value is known: the list shows the present ones.
                setCursor(at === undefined || 1000 * at > Date.now() ? undefined : at);
              }}
              onZoom={(zoomed) => {
                showSpan(route, zoomed);
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
        route={route}
        traces={all}
        hidden={hidden}
        span={span}
        cursor={cursor}
        toggle={(name) => {
          const next = new Set(hidden);
          if (!next.delete(name)) next.add(name);
          setHidden(next);
        }}
      />
    </section>
  );
}

const TOGGLES = [
  ["stack", "Below each other", "A chart for each PV"],
  ["log", "Logarithmic", "Values of 0 and below are not drawn"],
  ["limits", "Limits", "Lines at the limits of warnings and alarms"],
] as const;

interface OptionsProps {
  readonly route: Route;
  readonly traces: readonly Trace[];
  readonly view: TimeView;
  readonly canvases: { readonly current: ReadonlyMap<string, HTMLCanvasElement> };
}

function Options({ canvases, route, traces, view }: OptionsProps) {
  const [message, setMessage] = useState("");
  const panel = useRef<HTMLDivElement>(null);
  const fileName = (): string =>
    `plot_${dateText(Date.now(), route.settings.utc === "1").replace(/[ :]/g, "-")}`;
  return (
    <div ref={panel} className="choices">
      {TOGGLES.map(([key, title, hint]) => {
        const isOn = route.settings[key] === "1";
        return (
          <button
            key={key}
            type="button"
            title={hint}
            aria-pressed={isOn}
            onClick={() => {
              setTo(route, { [key]: isOn ? "" : "1" });
            }}
          >
            {title}
          </button>
        );
      })}
      <button
        type="button"
        onClick={() => {
          download(`${fileName()}.csv`, csvOfTraces(traces, spanOf(view, Date.now())));
        }}
      >
        Export CSV
      </button>
      <button
        type="button"
        onClick={() => {
          const style = getComputedStyle(panel.current?.closest(".panel") ?? document.body);
          const colours = { ground: style.backgroundColor, text: style.color };
          const drawn = canvases.current;
          const order = ["all", ...traces.map(({ name }) => name)].flatMap(
            (key) => drawn.get(key) ?? [],
          );
          pngOf(order, traces, colours).then(
            (picture) => {
              setMessage("");
              download(`${fileName()}.png`, picture);
            },
            (error: unknown) => {
              setMessage(error instanceof Error ? error.message : String(error));
            },
          );
        }}
      >
        Export PNG
      </button>
      <span className="note">Drag to zoom in; Ctrl and wheel zoom, Shift and wheel move</span>
      <span className="note" role="status">
        {message}
      </span>
    </div>
  );
}
