/** Plots, images and tables. Loaded with the first of them. */

import { useEffect, useMemo, useState, type ReactNode } from "react";

import { Canvas } from "../../plots/Canvas.js";
import { titleHeight, type Curve } from "../../plots/draw.js";
import { useClient, usePvs } from "../../react/index.js";
import type { PvConnectionState, PvData } from "../../types.js";
import { History, STEP_MS } from "../../widgets/history.js";
import { POINT_FIELDS, taker, type PointData } from "../../widgets/feed.js";
import { TableView } from "../../widgets/TableView.js";
import { useNote, useShown } from "../context.js";
import { resolveFile } from "../model/address.js";
import { defaultsOf } from "../model/defaults.js";
import { clientName } from "../model/names.js";
import { cssColour } from "../model/palette.js";
import { Props } from "../model/props.js";
import { childOf } from "../model/xml.js";
import { cssFont, placeOf } from "../place.js";
import { useFile } from "../loader.js";
import { useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "../widgets/Box.js";
import { stripOf } from "./databrowser.js";
import { axisOf, lookOf, tracesOf, yAxesOf, type Trace } from "./read.js";

export { Image } from "./image.js";

const FIELDS = `{
  value { number array }
  connection { state connected unresponsive readable }
}` as string;

type PlotData = Pick<PvData, "value" | "connection">;

/** The numbers of a present value. */
function numbersOf(pv: PlotData | undefined): ArrayLike<number | bigint> {
  if (pv?.value == null || !pv.connection.connected || pv.connection.unresponsive) return [];
  const { array, number } = pv.value;
  if (array === null) return number === null ? [] : [number];
  return typeof array[0] === "string" ? [] : (array as ArrayLike<number | bigint>);
}

const nameOf = (written: string): string | undefined => clientName(written)?.name;

/** Words for why a trace has no values. */
const WORDS: Readonly<Record<Exclude<PvConnectionState, "connected">, string>> = {
  connecting: "connecting…",
  notFound: "not found · still searching",
  disconnected: "disconnected",
  relayLost: "relay lost",
  refused: "refused",
};

/** What of its PVs a plot can't show. */
function problemsOf(names: readonly string[], pvs: readonly (PlotData | undefined)[]): string {
  return names
    .map((name, at) => {
      const found = clientName(name);
      if (found === undefined) return "";
      if (found.problem !== undefined) return found.problem;
      const { state = "connecting", unresponsive, readable } = pvs[at]?.connection ?? {};
      if (state !== "connected") return `${name}: ${WORDS[state]}`;
      if (unresponsive === true) return `${name}: no response`;
      return readable === false ? `${name}: no read access` : "";
    })
    .filter(Boolean)
    .join("\n");
}

export function XyPlot({ props, widget }: WidgetProps): ReactNode {
  const traces = useMemo(() => tracesOf(props), [props]);
  const written = traces.flatMap(({ xName, yName }) => [xName, yName]);
  const pvs = usePvs<PlotData>(written.map(nameOf), FIELDS);
  const { height, width } = placeOf(props);
  const drawing = useMemo(() => {
    const curves = traces.flatMap((trace, at): Curve[] => {
      if (!trace.isVisible) return [];
      const y = numbersOf(pvs[2 * at + 1]);
      const x = nameOf(trace.xName) === undefined ? indices(y.length) : numbersOf(pvs[2 * at]);
      return [{ ...trace, x, y }];
    });
    const ink = props.colour("foreground_color");
    const x = props.sub("x_axis");
    return {
      ...lookOf(props, x.font("scale_font")),
      x: axisOf(x, ink, false),
      y: yAxesOf(props, false),
      curves,
    };
  }, [props, pvs, traces]);
  return (
    <Plotted
      widget={widget}
      props={props}
      problems={problemsOf(written, pvs)}
      view={
        <Canvas drawing={drawing} width={width} height={height} label={labelOf(props, written)} />
      }
    />
  );
}

/** What screen readers get of a plot: most have no title. */
function labelOf(props: WidgetProps["props"], written: readonly string[]): string {
  const title = props.text("title");
  return title === "" ? `Plot of ${written.filter((name) => name !== "").join(", ")}` : title;
}

function indices(count: number): ArrayLike<number> {
  return Array.from({ length: count }, (_, at) => at);
}

interface PlottedProps extends Pick<WidgetProps, "widget" | "props"> {
  readonly problems: string;
  readonly view: ReactNode;
}

function Plotted({ problems, props, view, widget }: PlottedProps) {
  return (
    <Box
      widget={widget}
      props={props}
      problem={problems === "" ? undefined : problems}
      className="pvwire-display-plot"
      style={{ backgroundColor: cssColour(props.colour("background_color")) }}
    >
      {view}
      {problems !== "" && (
        // Below the title, where no axis is.
        <span
          className="pvwire-display-plot-problem"
          style={{ top: titleHeight(lookOf(props, props.font("scale_font"))) }}
        >
          {someOf(problems.split("\n"), placeOf(props).height).map((problem, at) => (
            <span key={at}>{problem}</span>
          ))}
        </span>
      )}
    </Box>
  );
}

/** Height of a line of the problems, of the style sheet. */
const LINE = 15;

/** Share of a plot's height that problems may cover. */
const COVERED = 0.3;

/** The first problems, as many as leave a plot visible, and how many more there are. */
function someOf(problems: readonly string[], height: number): readonly string[] {
  const room = Math.max(1, Math.floor((COVERED * height) / LINE));
  if (problems.length <= room) return problems;
  const shown = problems.slice(0, room - 1);
  const others = `${String(problems.length - shown.length)} ${shown.length > 0 ? "more " : ""}PVs`;
  return [...shown, `${others} have no value`];
}
const keyOf = (traces: readonly Trace[]): string =>
  JSON.stringify(traces.map(({ yName }) => nameOf(yName)));

/** A trace without a PV has become null. */
const namesIn = (key: string): (string | null)[] => JSON.parse(key) as (string | null)[];

const UNITS: ReadonlyMap<string, number> = new Map(
  Object.entries({
    s: 1,
    sec: 1,
    second: 1,
    min: 60,
    minute: 60,
    h: 3600,
    hour: 3600,
    d: 86_400,
    day: 86_400,
    week: 604_800,
    month: 2_592_000,
  }),
);

/** A length of time such as `1 minute` or `-2.5 hours`, in seconds; one minute for another text. */
function secondsOf(text: string): number {
  let seconds = 0;
  for (const [, number, unit] of text.matchAll(/(\d+(?:\.\d+)?)\s*([a-zA-Z]+)/g)) {
    const name = (unit ?? "").toLowerCase();
    seconds += Number(number) * (UNITS.get(name) ?? UNITS.get(name.replace(/s$/, "")) ?? 0);
  }
  return seconds > 0 ? Math.min(seconds, 30 * 86_400) : 60;
}

export function StripPlot({ props, widget }: WidgetProps): ReactNode {
  const client = useClient();
  const traces = useMemo(() => tracesOf(props), [props]);
  const written = traces.map(({ yName }) => yName);
  const key = useMemo(() => keyOf(traces), [traces]);
  const pvs = usePvs<PlotData>(written.map(nameOf), FIELDS);
  const { height, width } = placeOf(props);
  const seconds = secondsOf(props.text("start"));
  const [now, setNow] = useState(() => Date.now() / 1000);
  // Other PVs have other histories; another look keeps them.
  const histories = useMemo(() => namesIn(key).map(() => new History()), [key]);
  useEffect(() => {
    const ends = namesIn(key).map((name, at) => {
      const history = histories[at];
      if (name === null || history === undefined) return () => undefined;
      const point = client.pv<PointData>(name, POINT_FIELDS);
      const take = taker(point, history);
      const end = point.subscribe(take);
      take();
      return end;
    });
    const timer = setInterval(() => {
      setNow(Date.now() / 1000);
    }, STEP_MS);
    return () => {
      clearInterval(timer);
      for (const end of ends) end();
    };
  }, [client, key, histories]);
  const drawing = useMemo(() => {
    const curves = traces.flatMap((trace, at): Curve[] => {
      const history = histories[at];
      if (history === undefined) return [];
      if (!trace.isVisible) {
        // A rule may show it again.
        history.trim(now, seconds);
        return [];
      }
      return [{ ...trace, ...history.curve(now, seconds, width) }];
    });
    const ink = props.colour("foreground_color");
    const withGrid = props.flag("show_grid");
    const x = axisOf(props.sub("none"), ink, false);
    return {
      ...lookOf(props, props.font("scale_font")),
      x: { ...x, range: [-seconds, 0] as const, withGrid },
      y: yAxesOf(props, true).map((axis) => ({ ...axis, withGrid: withGrid || axis.withGrid })),
      time: now,
      curves,
    };
  }, [props, traces, histories, now, seconds, width]);
  return (
    <Plotted
      widget={widget}
      props={props}
      problems={problemsOf(written, pvs)}
      view={
        <Canvas drawing={drawing} width={width} height={height} label={labelOf(props, written)} />
      }
    />
  );
}

/** The plot of a data browser's file. It begins when it is opened, as a strip chart does. */
export function DataBrowser(of: WidgetProps): ReactNode {
  const { props, widget } = of;
  const { palette, root } = useShown();
  const { scope } = widget;
  const name = props.text("file");
  const found = useMemo(() => resolveFile(name, scope.file.address, root), [name, scope, root]);
  const { file, problem: unread } = useFile(
    found.problem === undefined ? found.address : undefined,
    "databrowser",
  );
  const problem = found.problem ?? unread;
  useNote("file", problem);
  const plot = file?.node;
  const formulas = plot && childOf(plot, "pvlist")?.children;
  const unknown = (formulas ?? []).filter((child) => child.name === "formula").length;
  const lacking = `${name}: ${String(unknown)} formulas of a data browser`;
  useNote("pv", unknown === 0 ? undefined : lacking);
  const { height, width, x, y } = placeOf(props);
  const shown = props.text("name");
  const tooltip = props.text("tooltip");
  const strip = useMemo(() => {
    if (plot === undefined) return undefined;
    const numbers = { x, y, width, height };
    const place = Object.entries(numbers).map(([key, number]) => [key, String(number)] as const);
    const node = stripOf(plot, { ...Object.fromEntries(place), name: shown, tooltip });
    return new Props(node, defaultsOf("stripchart") ?? {}, { lookup: scope.lookup, palette });
  }, [plot, x, y, width, height, shown, tooltip, scope, palette]);
  if (strip !== undefined) return <StripPlot {...of} props={strip} />;
  return (
    <Box widget={widget} props={props} problem={problem} className="pvwire-display-unknown">
      <span>{problem}</span>
    </Box>
  );
}

export function Table({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition } = useWidgetPv(name);
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={problem}
      className="pvwire-display-hosted"
      style={{
        ...cssFont(props.font()),
        backgroundColor: cssColour(props.colour("background_color")),
      }}
    >
      {name === undefined ? (
        <table>
          <thead>
            <tr>
              {props.list("columns").map((column, at) => (
                <th key={at} style={{ width: column.integer("width", 100) }}>
                  {column.text("name", `Column ${String(at + 1)}`)}
                </th>
              ))}
            </tr>
          </thead>
        </table>
      ) : (
        <TableView name={name} maxRows={500} />
      )}
    </Box>
  );
}
