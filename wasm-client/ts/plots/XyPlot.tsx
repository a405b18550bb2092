/** Up to 20 PVs against another one, or against the index of their elements. */

import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from "react";

import { usePvHistory, usePvs } from "../react/index.js";
import type { LivePvHistory, PvConnection, PvValue } from "../types.js";
import { rangeAround } from "../widgets/scale.js";
import { t } from "../texts.js";
import type { Axis, Curve, Drawing, Limit, Placed } from "./draw.js";
import { useIsDark } from "./ground.js";
import { endOf, requestOf, spanOf } from "./span.js";
import { stepsOf, type Span } from "./steps.js";
import { useRequested, useTimeRange } from "./time.js";
import { Tools, type PlotOptions } from "./Tools.js";
import { TraceList, type Against } from "./TraceList.js";
import { MAX_TRACES, traceOf, type Meta, type Trace } from "./traces.js";
import {
  csvOfCurves,
  ELEMENT_INDEX,
  endsOf,
  pairsOf,
  presentOf,
  textOfCurves,
  type Points,
  pointText,
  type XyCurve,
} from "./xy.js";
import { XyView } from "./XyView.js";
import {
  nearestTo,
  placeBeside,
  rangeIn,
  zoomedTo,
  type Near,
  type Place,
  type XyPlaced,
  type XyZoom,
} from "./xy_zoom.js";

/** The properties of `XyPlot`. */
export interface XyPlotProps {
  /** The PV of the horizontal axis; `#` is the index of an array's element. */
  readonly xName: string;
  /** The PVs of the vertical axes: arrays, numbers and choices. The first 20 are drawn. */
  readonly names: readonly string[];
  /** Least height of the picture, in pixels; in a flex column it fills the rest. @default 320 */
  readonly height?: number;
  /** Times in UTC. @default false, for the user's time zone */
  readonly isUtc?: boolean;
  /** How curves are drawn, if the application keeps it. @default what the user chooses */
  readonly options?: PlotOptions;
  /** Called when the user chooses how curves are drawn. */
  readonly onOptions?: (options: PlotOptions) => void;
  /** What part is shown, if the application keeps it; empty for all. @default what the user chooses */
  readonly zoom?: XyZoom;
  /** Called when the user chooses another part; empty for all. */
  readonly onZoom?: (zoom: XyZoom) => void;
  /** The address of a PV's page, for the names in the list. @default names without links */
  readonly hrefOf?: (name: string) => string;
  /** Called when the user removes a PV. @default PVs can't be removed */
  readonly onRemove?: (name: string) => void;
}

const FIELDS = `{
  value { array number }
  connection { connected unresponsive readable }
  display { type units choices alarmRange { min max } warningRange { min max } }
}`;

interface XyData extends Meta {
  readonly value: Pick<PvValue, "array" | "number"> | null;
  readonly connection: Pick<PvConnection, "connected" | "unresponsive" | "readable">;
}

/** About the most updates of a PV that are drawn. */
const POINTS = 8000;

/** A live picture is drawn this often. */
const DRAWN_EVERY_MS = 250;

const FONT_SIZE = 12;
const FONT = `${String(FONT_SIZE)}px system-ui, sans-serif`;

/** Least width of the picture for each further vertical axis, in pixels. */
const AXIS_ROOM = 260;

const TOGGLES = ["isLog", "hasLimits"] as const;

/**
 * PVs against another one: arrays element by element as they are now, and numbers as they were at the same time, over
 * the time of the page's `TimeRangeProvider`. Dragging zooms, and so do the wheel with Ctrl and the keys + and -; the wheel
 * with Shift and the arrow keys move. The point next to the cursor is told above, and a list below has the state of each PV.
 */
export function XyPlot(props: XyPlotProps): ReactNode {
  const names = props.names.filter((name) => name !== props.xName).slice(0, MAX_TRACES);
  // Nothing of other PVs remains.
  return <Plot key={JSON.stringify([props.xName, names])} {...props} names={names} />;
}

function Plot(props: XyPlotProps) {
  const { height = 320, hrefOf, isUtc = false, onOptions, onRemove, xName } = props;
  // The same list, not the one of each rendering.
  const [names] = useState(props.names);
  const [own, setOwn] = useState<PlotOptions>({});
  const options = props.options ?? own;
  const { hasLimits = false, isLog = false } = options;
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const host = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const isDark = useIsDark(host);
  const { grid, ink, ...size } = useBox(box, isDark);
  const [range] = useTimeRange();
  const isPast = endOf(range) !== undefined;
  const { nowMs, traces, values, x } = useSeen(xName, names, isDark);
  const span = spanOf(range, nowMs);
  const found = useMemo(() => {
    const { from, to } = spanOf(range, nowMs);
    return traces.map((trace, at) => ({
      trace,
      ...curveOf(x, { trace, value: values[at] }, isPast, { from, to }),
    }));
  }, [range, nowMs, traces, values, x, isPast]);
  const drawn = useMemo(
    () =>
      found.flatMap(({ isNow = false, points, trace }): XyCurve[] =>
        points === undefined || hidden.has(trace.name) ? [] : [{ isNow, points, trace }],
      ),
    [found, hidden],
  );
  const text = useMemo(() => textOfCurves(x?.trace, drawn), [x, drawn]);
  const { width } = size;
  const scales = useMemo(() => [...new Set(traces.map(({ scale }) => scale))], [traces]);
  const zooming = useZoom(props, { drawn, isLog, scales });
  const { near, placed, setZoom, zoom } = zooming;
  const drawing = useMemo(
    () => drawingOf(x, drawn, { grid, ink, hasLimits, isLog, near, scales, width, zoom }),
    [x, drawn, grid, ink, hasLimits, isLog, near, scales, width, zoom],
  );
  const against = useMemo(() => againstOf(x, values, found, isPast), [x, values, found, isPast]);
  const list = [...(x === undefined ? [] : [x.trace]), ...traces];
  return (
    <div ref={host} className="pvwire-history-plot">
      <Tools
        options={options}
        change={(next) => {
          setOwn(next);
          onOptions?.(next);
          // A logarithmic axis can't have the ends of a plain one, such as 0.
          if (next.isLog !== isLog && zoom.length > 0) setZoom([]);
        }}
        toggles={TOGGLES}
        isUtc={isUtc}
        traces={drawn.map(({ trace }) => trace)}
        csv={() => csvOfCurves(x?.trace, drawn)}
        canvases={() => [...(box.current?.querySelectorAll("canvas") ?? [])]}
      />
      <p className="pvwire-xy-near pvwire-note">
        {zoom.length > 0 && (
          <button
            type="button"
            onClick={() => {
              setZoom([]);
            }}
          >
            {t`Show all`}
          </button>
        )}
        <span data-part="near">{nearText(x?.trace, drawn, near, isUtc)}</span>
      </p>
      <div ref={box} className="pvwire-plot pvwire-xy" style={{ minHeight: `${String(height)}px` }}>
        <XyView
          {...size}
          label={text}
          drawing={drawing}
          placed={placed}
          onDrawn={zooming.onDrawn}
          zoom={(across, up) => {
            if (placed !== undefined) setZoom(zoomedTo(placed, across, up, zoom));
          }}
          showAll={() => {
            if (zoom.length > 0) setZoom([]);
          }}
          point={zooming.setPointer}
          step={(by) => {
            const place = placed && placeBeside(placed, drawn, near, by);
            if (place !== undefined) zooming.setPointer(place);
          }}
        />
      </div>
      <TraceList
        traces={list}
        hidden={hidden}
        span={span}
        isUtc={isUtc}
        at={undefined}
        isNow={!isPast}
        hrefOf={hrefOf}
        onRemove={onRemove}
        toggle={(name) => {
          const next = new Set(hidden);
          if (!next.delete(name)) next.add(name);
          setHidden(next);
        }}
        against={against}
      />
    </div>
  );
}

interface Zooming {
  /** Empty for all. */
  readonly zoom: XyZoom;
  readonly setZoom: (zoom: XyZoom) => void;
  readonly placed: XyPlaced | undefined;
  readonly onDrawn: (placed: Placed | undefined) => void;
  readonly near: Near | undefined;
  readonly setPointer: (place: Place | undefined) => void;
}

const NO_ZOOM: XyZoom = [];

/** What part of the picture is shown, and what of it is at the cursor. */
function useZoom(
  props: Pick<XyPlotProps, "onZoom" | "zoom">,
  {
    drawn,
    isLog,
    scales,
  }: {
    readonly drawn: readonly XyCurve[];
    readonly isLog: boolean;
    readonly scales: readonly string[];
  },
): Zooming {
  const [own, setOwn] = useState(NO_ZOOM);
  const [pointer, setPointer] = useState<Place>();
  const [last, setLast] = useState<Placed>();
  const onDrawn = useCallback((next: Placed | undefined) => {
    setLast((before) => (JSON.stringify(before) === JSON.stringify(next) ? before : next));
  }, []);
  const shown = useMemo(() => shownOf(scales, drawn), [scales, drawn]);
  const placed = useMemo(
    (): XyPlaced | undefined =>
      last && {
        room: last.room,
        x: { range: last.x, isLog: false },
        y: shown.flatMap((scale, at) => {
          const range = last.y[at];
          return range === undefined ? [] : [{ range, isLog, scale, index: scales.indexOf(scale) }];
        }),
      },
    [last, shown, isLog, scales],
  );
  const near = useMemo(() => nearestTo(placed, drawn, pointer), [placed, drawn, pointer]);
  const zoom = props.zoom ?? own;
  const setZoom = (next: XyZoom): void => {
    setOwn(next);
    props.onZoom?.(next);
  };
  return { zoom, setZoom, placed, onDrawn, near, setPointer };
}

/** The scales of curves, in the order of the PVs. */
const shownOf = (scales: readonly string[], drawn: readonly XyCurve[]): readonly string[] =>
  scales.filter((scale) => drawn.some(({ trace }) => trace.scale === scale));

/** The point at the cursor in words; without one, what the mouse does. */
function nearText(
  x: Trace | undefined,
  drawn: readonly XyCurve[],
  near: Near | undefined,
  isUtc: boolean,
): string {
  const curve = near && drawn[near.curve];
  return curve === undefined || near === undefined
    ? t`Drag to zoom in; Ctrl and wheel zoom, Shift and wheel move`
    : pointText(x, curve, near.row, isUtc);
}

interface Box {
  readonly width: number;
  readonly height: number;
  readonly ink: string;
  readonly grid: string;
}

/** The size of the picture in whole pixels, and its colours. */
function useBox(box: { readonly current: HTMLElement | null }, isDark: boolean): Box {
  const [found, setFound] = useState({ width: 300, height: 200, ink: "#888", grid: "#888" });
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const read = (): void => {
      const { color, columnRuleColor } = getComputedStyle(element);
      const { clientHeight, clientWidth } = element;
      setFound({ width: clientWidth, height: clientHeight, ink: color, grid: columnRuleColor });
    };
    // Called at once, too.
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => {
      observer.disconnect();
    };
  }, [box, isDark]);
  return found;
}

interface Side {
  readonly trace: Trace;
  readonly value: XyData | undefined;
}

interface Seen {
  readonly nowMs: number;
  /** `undefined`: the index of the element. */
  readonly x: Side | undefined;
  readonly traces: readonly Trace[];
  readonly values: readonly (XyData | undefined)[];
}

const arrayOf = (pv: XyData | undefined): PvValue["array"] => pv?.value?.array ?? null;

/** All PVs and their pasts, at most so often as the picture is drawn. */
function useSeen(xName: string, names: readonly string[], isDark: boolean): Seen {
  const isIndex = xName === ELEMENT_INDEX;
  const all = useMemo(() => (isIndex ? [...names] : [xName, ...names]), [isIndex, names, xName]);
  const pvs = usePvs<XyData>(all, FIELDS);
  const [range] = useTimeRange();
  // The relay keeps no past of arrays.
  const numbers = isIndex ? [] : all.filter((_, at) => arrayOf(pvs[at]) === null);
  const histories = usePvHistory(numbers, requestOf(useRequested(range), POINTS));
  const latest = useRef({ pvs, histories });
  useEffect(() => {
    latest.current = { pvs, histories };
  });
  const [seen, setSeen] = useState(() => ({ pvs, histories, nowMs: Date.now() }));
  // Arrays move only by another value.
  const isMoving = range.kind === "live" && numbers.length > 0;
  useEffect(() => {
    const timer = setInterval(() => {
      const { histories, pvs } = latest.current;
      setSeen((before) => {
        const isSame = before.pvs === pvs && before.histories === histories && !isMoving;
        return isSame ? before : { histories, pvs, nowMs: Date.now() };
      });
    }, DRAWN_EVERY_MS);
    return () => {
      clearInterval(timer);
    };
  }, [isMoving]);
  return useMemo(() => {
    const historyOf = (name: string): LivePvHistory | undefined =>
      seen.histories.find((history) => history.name === name);
    const shift = isIndex ? 0 : 1;
    const sides = all.map((name, at): Side => ({
      trace: traceOf(name, at - shift, isDark, seen.pvs[at], historyOf(name)),
      value: seen.pvs[at],
    }));
    const others = sides.slice(shift);
    return {
      nowMs: seen.nowMs,
      x: isIndex ? undefined : sides[0],
      traces: others.map(({ trace }) => trace),
      values: others.map(({ value }) => value),
    };
  }, [all, isDark, isIndex, seen]);
}

interface Found {
  readonly points?: Points;
  readonly isNow?: boolean;
  /** Why there is no curve, or what of it isn't drawn. */
  readonly note?: string;
}

const isPresent = (pv: XyData | undefined): boolean =>
  pv?.connection.connected === true && pv.connection.readable && !pv.connection.unresponsive;

/** The points of a PV against `x`, or the index without one. */
function curveOf(x: Side | undefined, y: Side, isPast: boolean, span: Span): Found {
  const [xArray, yArray] = [arrayOf(x?.value), arrayOf(y.value)];
  if (!y.trace.isNumber || isTexts(yArray)) return { note: noNumber() };
  // The list says it at the other PV.
  if (x !== undefined && (!x.trace.isNumber || isTexts(xArray))) return {};
  if (yArray !== null) {
    if (isPast) return { note: noPast() };
    if (!isPresent(y.value) || (x !== undefined && !isPresent(x.value))) return {};
    if (x === undefined) {
      return { points: { x: indices(yArray.length), y: yArray as Numbers, at: undefined } };
    }
    if (xArray === null) return { note: t`an array, and ${x.trace.name} is one number` };
    const [one, other] = [xArray.length, yArray.length];
    const count = Math.min(one, other);
    const points = {
      x: firstOf(xArray as Numbers, count),
      y: firstOf(yArray as Numbers, count),
      at: undefined,
    };
    if (one === other) return { points };
    const first = t`the first ${String(count)} are drawn`;
    return {
      points,
      note: t`${String(other)} elements, and ${x.trace.name} has ${String(one)}: ${first}`,
    };
  }
  if (y.value?.value == null && y.trace.history === undefined) return {};
  if (x === undefined) return { note: t`one number, which has no other elements` };
  if (xArray !== null) return { note: t`one number, and ${x.trace.name} is an array` };
  const [past, other] = [x.trace.history, y.trace.history];
  if (past === undefined || other === undefined) return {};
  const isNow = !isPast && isPresent(x.value) && isPresent(y.value);
  return { isNow, points: pairsOf(stepsOf(past), stepsOf(other), span) };
}

const noNumber = (): string => t`no number: nothing to draw`;
const noPast = (): string => t`the relay keeps no past of arrays`;

const isTexts = (array: PvValue["array"]): boolean => typeof array?.[0] === "string";

/** A present array of numbers. */
type Numbers = ArrayLike<number | bigint>;

const indices = (count: number): Numbers => Array.from({ length: count }, (_, at) => at);

const firstOf = (array: Numbers, count: number): Numbers =>
  array.length === count
    ? array
    : Array.from({ length: Math.min(count, array.length) }, (_, at) => array[at] ?? NaN);

/** What the list says beside each PV. */
function againstOf(
  x: Side | undefined,
  values: readonly (XyData | undefined)[],
  found: readonly (Found & Pick<XyCurve, "trace">)[],
  isPast: boolean,
): Against {
  const notes = new Map<string, string>();
  const ranges = new Map<string, readonly [number, number]>();
  found.forEach(({ note, trace }) => {
    if (note !== undefined) notes.set(trace.name, note);
  });
  if (x !== undefined) {
    const array = arrayOf(x.value);
    if (!x.trace.isNumber || isTexts(array)) notes.set(x.trace.name, noNumber());
    else if (array !== null && isPast) notes.set(x.trace.name, noPast());
  }
  const names = [x?.trace.name, ...found.map(({ trace }) => trace.name)];
  [x?.value, ...values].forEach((pv, at) => {
    const [array, name] = [arrayOf(pv), names[at]];
    if (array === null || name === undefined || isPast || !isPresent(pv) || isTexts(array)) return;
    const ends = endsOf(array as Numbers);
    if (ends !== undefined) ranges.set(name, ends);
  });
  return { xName: x?.trace.name ?? "", notes, ranges };
}

interface Looks extends Pick<Box, "grid" | "ink" | "width"> {
  readonly hasLimits: boolean;
  readonly isLog: boolean;
  readonly near: Near | undefined;
  /** Those of all PVs. */
  readonly scales: readonly string[];
  readonly zoom: XyZoom;
}

/** Dots and dashes as in plots over time. */
function limitsOf({ limits }: Trace): readonly Limit[] {
  const limitsIn = (range: Trace["limits"]["alarm"], dash: readonly number[]): Limit[] =>
    [range?.min, range?.max].flatMap((at) => (at == null ? [] : [{ at, dash }]));
  return [...limitsIn(limits.warning, [2, 4]), ...limitsIn(limits.alarm, [10, 4])];
}

/** The name and units of an axis. */
function titleOf({ choices, name, units }: Trace): string {
  const labels = choices?.map((label, at) => `${String(at)}: ${label}`).join(", ");
  const unit = labels ?? units;
  return unit === "" ? name : `${name} (${unit})`;
}

/** A range with room; `undefined` lets a logarithmic axis find its own. */
function rangeOf(all: readonly Numbers[], isLog: boolean): Axis["range"] {
  if (isLog) return undefined;
  const ends = all.flatMap((numbers) => endsOf(numbers) ?? []);
  return ends.length === 0 ? [0, 1] : rangeAround(Math.min(...ends), Math.max(...ends));
}

function drawingOf(x: Side | undefined, drawn: readonly XyCurve[], looks: Looks): Drawing {
  const { grid, hasLimits, ink, isLog, near, width, zoom } = looks;
  const scales = shownOf(looks.scales, drawn);
  const atCursor = near && drawn[near.curve];
  const crossing = (numbers: Numbers | undefined): readonly Limit[] =>
    numbers === undefined || near === undefined
      ? []
      : [{ at: Number(numbers[near.row]), dash: [1, 3] }];
  const shown = Math.max(1, Math.floor(width / AXIS_ROOM));
  const plain = { isLog: false, withGrid: true, isShown: true, colour: ink, onRight: false };
  const curves = drawn.map(({ points, trace }): Curve => ({
    name: trace.name,
    x: points.x,
    y: points.y,
    axis: scales.indexOf(trace.scale),
    colour: trace.colour,
    width: 1,
    dash: trace.dash,
    kind: "line",
    point: 3,
  }));
  return {
    title: "",
    titleFont: FONT,
    font: FONT,
    fontSize: FONT_SIZE,
    ink,
    grid,
    withLegend: false,
    x: {
      ...plain,
      title: x === undefined ? t`Index of the element` : titleOf(x.trace),
      range:
        rangeIn(zoom, 0) ??
        rangeOf(
          drawn.map(({ points }) => points.x),
          false,
        ),
      limits: [
        ...(hasLimits && x !== undefined ? limitsOf(x.trace) : []),
        ...crossing(atCursor?.points.x),
      ],
    },
    y: scales.map((scale, at): Axis => {
      const own = drawn.filter(({ trace }) => trace.scale === scale);
      const [first] = own;
      const isOne = own.length === 1;
      return {
        ...plain,
        title: first === undefined ? "" : isOne ? titleOf(first.trace) : first.trace.units,
        range:
          rangeIn(zoom, 1 + looks.scales.indexOf(scale)) ??
          rangeOf(
            own.map(({ points }) => points.y),
            isLog,
          ),
        isLog,
        withGrid: at === 0,
        isShown: at < shown,
        colour: isOne && first !== undefined ? first.trace.colour : ink,
        onRight: at % 2 === 1,
        limits: [
          ...(hasLimits ? own.flatMap(({ trace }) => limitsOf(trace)) : []),
          ...(atCursor?.trace.scale === scale ? crossing(atCursor.points.y) : []),
        ],
      };
    }),
    curves: [...curves, ...drawn.flatMap((each) => markOf(each, scales.indexOf(each.trace.scale)))],
  };
}

/** The present pair is larger than those before. */
function markOf(curve: XyCurve, axis: number): Curve[] {
  const pair = presentOf(curve);
  if (pair === undefined) return [];
  const { colour, name } = curve.trace;
  const [x, y] = pair;
  return [{ name, x: [x], y: [y], axis, colour, width: 1, dash: [], kind: "none", point: 9 }];
}
