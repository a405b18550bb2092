/** One widget: its properties in its scope, what its rules set, and the component of its type. */

import {
  Component,
  Fragment,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useState,
  type ReactNode,
} from "react";

import { usePvKey } from "../react/provider.js";
import { useClient } from "../react/index.js";
import type { PvClient, PvData, Readable } from "../types.js";
import { innerScope, ScaleContext, ScopeContext, useNote, useScope, useShown } from "./context.js";
import { defaultsOf, UNKNOWN_DEFAULTS } from "./model/defaults.js";
import { isText, valueText, type ValueFormat } from "./model/format.js";
import { isLegacy, macrosOf, type WidgetSource } from "./model/file.js";
import { notesOf } from "./model/inspect.js";
import { clientName } from "./model/names.js";
import { Props, type Overrides } from "./model/props.js";
import { evaluate, rulesOf, type RulePv, type Rules } from "./model/rules.js";
import { usePaced } from "./frame_queue.js";
import { textOf } from "./model/xml.js";
import { CanvasesContext, painting } from "./canvases.js";
import { placeOf } from "./place.js";
import { boxOf, ChunkSight, extentOf, MANY, SightContext, type Box as Extent } from "./sight.js";
import { subscribeEarly } from "./use_widget_pv.js";
import { ComponentsContext, type Reach, type Widget, type WidgetProps } from "./widget.js";
import { Box } from "./widgets/Box.js";

/** Widgets that fail together are rendered again one by one. */
const CHUNK = 40;

/** Chunks that are rendered at first: a frame is painted before the next ones. */
const FIRST_CHUNKS = 10;

/** Chunks that are rendered at a time later: values that change meanwhile take time of each frame. */
const CHUNKS_AT_A_TIME = 40;

interface WidgetsProps {
  readonly widgets: readonly WidgetSource[];
  readonly reach?: Reach;
}

/** All widgets of a display or a group, in drawing order; of many, those in the window first. */
export function Widgets({ reach, widgets }: WidgetsProps): ReactNode {
  const chunks = useMemo(() => chunksOf(widgets), [widgets]);
  // What is scaled in two directions isn't painted.
  const isScaled = useContext(ScaleContext) === undefined;
  const canvases = useMemo(() => {
    if (isScaled || painting === undefined || widgets.length < MANY) return undefined;
    const code = painting;
    const bands = code.bandsOf(widgets);
    return bands.size === 0 ? undefined : { code, bands };
  }, [isScaled, widgets]);
  const isMany = widgets.length >= MANY;
  const [count, setCount] = useState(isMany ? 0 : FIRST_CHUNKS);
  const isPart = count < chunks.length;
  const client = useClient();
  const scope = useScope();
  useLayoutEffect(() => {
    if (!isMany || !isPart) return;
    const end = subscribeEarly(client, widgets, scope);
    // After the request, which is sent in a microtask too.
    queueMicrotask(() => {
      setCount((now) => Math.max(now, FIRST_CHUNKS));
    });
    return end;
  }, [isMany, isPart, client, widgets, scope]);
  useEffect(() => {
    if (!isPart || count === 0) return;
    const timer = setTimeout(() => {
      setCount(count + CHUNKS_AT_A_TIME);
    });
    return () => {
      clearTimeout(timer);
    };
  }, [isPart, count]);
  return (
    <CanvasesContext.Provider value={canvases}>
      {chunks.map(({ rank, ...chunk }, at) =>
        rank < count ? (
          <Chunk key={at} {...chunk} reach={reach} isOneOfMany={chunks.length > 1} />
        ) : null,
      )}
      {canvases && <canvases.code.BandCanvases bands={canvases.bands} />}
    </CanvasesContext.Provider>
  );
}

interface ChunkOf extends Omit<ChunkProps, "isOneOfMany" | "reach"> {
  /** When it is rendered: 0 is the first. */
  readonly rank: number;
}

function chunksOf(widgets: readonly WidgetSource[]): readonly ChunkOf[] {
  const lists: WidgetSource[][] = [];
  for (let at = 0; at < widgets.length; at += CHUNK) lists.push(widgets.slice(at, at + CHUNK));
  const isInWindow = ({ node }: WidgetSource): boolean =>
    !(Number(textOf(node, "x")) > innerWidth || Number(textOf(node, "y")) > innerHeight);
  const order = lists
    .map((sources, at) => ({ at, isFirst: sources.some(isInWindow) }))
    .sort((one, other) => Number(other.isFirst) - Number(one.isFirst))
    .map(({ at }) => at);
  return lists.map((sources, at) => ({
    sources,
    extent: extentOf(sources),
    rank: order.indexOf(at),
  }));
}

interface ChunkProps {
  readonly sources: readonly WidgetSource[];
  /** The box around them; `undefined` if they may leave it. */
  readonly extent: Extent | undefined;
  /** It has a separate element. */
  readonly isOneOfMany: boolean;
  readonly reach: Reach | undefined;
}

/** Some widgets. If one of them can't be shown, each has a boundary. */
class Chunk extends Component<ChunkProps, { readonly isBroken: boolean }> {
  override state = { isBroken: false };
  readonly #sight = new ChunkSight();

  static getDerivedStateFromError(): { readonly isBroken: boolean } {
    return { isBroken: true };
  }

  /** Once for all of its widgets: the chunks after it are added one by one. */
  override shouldComponentUpdate(
    props: ChunkProps,
    state: { readonly isBroken: boolean },
  ): boolean {
    const { isOneOfMany, sources } = this.props;
    return (
      props.sources !== sources ||
      props.isOneOfMany !== isOneOfMany ||
      state.isBroken !== this.state.isBroken
    );
  }

  override render(): ReactNode {
    const { extent, isOneOfMany, reach, sources } = this.props;
    const inside = (
      <>
        {extent && <i ref={this.#sight.watch} className="pvwire-display-extent" style={extent} />}
        {sources.map((source) => (
          <WidgetView key={source.id} source={source} reach={reach} isAlone={this.state.isBroken} />
        ))}
      </>
    );
    return (
      <SightContext.Provider value={extent && this.#sight}>
        {isOneOfMany ? <div className="pvwire-display-chunk">{inside}</div> : inside}
      </SightContext.Provider>
    );
  }
}

interface WidgetViewProps {
  readonly source: WidgetSource;
  /** It has a boundary for errors. */
  readonly isAlone: boolean;
  readonly reach: Reach | undefined;
}

function WidgetView({ isAlone, reach, source }: WidgetViewProps) {
  const outer = useScope();
  const { palette } = useShown();
  const components = useContext(ComponentsContext);
  const [widget, rules] = useMemo(() => {
    const scope = innerScope(outer, macrosOf(source.node));
    const defaults = defaultsOf(source.type) ?? UNKNOWN_DEFAULTS;
    const props = new Props(source.node, defaults, { lookup: scope.lookup, palette });
    const missing = notesOf(source)
      .filter(({ kind }) => kind !== "property" && kind !== "class")
      .map(({ text }) => text)
      .join("\n");
    const component = components.get(source.type) ?? Unknown;
    const lookup = (name: string): string | undefined => scope.lookup(name) ?? props.macro(name);
    const ruled = rulesOf(source.node, lookup, isLegacy(scope.file));
    const made: Widget = {
      source,
      type: source.type,
      props,
      scope,
      component,
      missing,
      reach: boxOf(source) === undefined ? reach : undefined,
    };
    return [missingToo(made, ruled.problems), ruled] as const;
  }, [components, outer, palette, reach, source]);
  const placed = usePlaced(widget, widget.props);
  const view = rules.rules.length === 0 ? placed : <Ruled widget={widget} rules={rules} />;
  const whole = isAlone ? <Boundary widget={widget}>{view}</Boundary> : view;
  const inScope =
    widget.scope === outer ? (
      whole
    ) : (
      <ScopeContext.Provider value={widget.scope}>{whole}</ScopeContext.Provider>
    );
  if (rules.problems.length === 0) return inScope;
  return (
    <>
      {ruleProblems(rules.problems)}
      {inScope}
    </>
  );
}

const missingToo = (widget: Widget, problems: readonly string[]): Widget =>
  problems.length === 0
    ? widget
    : { ...widget, missing: [widget.missing, ...problems].filter(Boolean).join("\n") };

/** Is in the list of what isn't shown: only macros or the values of PVs make it a problem. */
function Problem({ text }: { readonly text: string }) {
  useNote("pv", text);
  return null;
}

const ruleProblems = (problems: readonly string[]): ReactNode =>
  problems.map((problem) => <Problem key={problem} text={`rule: ${problem}`} />);

const RULE_FIELDS = `{
  value { string number bigint array text }
  display { precision units type }
  status { severity }
  connection { connected readable unresponsive }
}` as string;

/** What the rules of a widget set, and the PVs whose present value they lack. */
interface Ruling {
  readonly overrides: Overrides;
  readonly lost: string;
  /** Rules that can't work on these values. */
  readonly problems: readonly string[];
}

const isChange = (before: Ruling | undefined, now: Ruling | undefined): boolean => before !== now;

/** A widget with rules. It renders again only when what they set or lack changes. */
function Ruled({ widget, rules }: { readonly widget: Widget; readonly rules: Rules }) {
  const client = useClient();
  const store = useMemo(() => ruledStore(client, widget, rules), [client, widget, rules]);
  const { lost, overrides, problems } = usePaced(store, isChange) ?? NOTHING_SET;
  const props = useMemo(() => widget.props.with(overrides), [widget, overrides]);
  const inState = useMemo(() => {
    const whole = missingToo(widget, problems);
    return lost === "" ? whole : { ...whole, lost };
  }, [widget, lost, problems]);
  const placed = usePlaced(inState, props);
  return (
    <>
      {ruleProblems(problems)}
      {placed}
    </>
  );
}

const NOTHING_SET: Ruling = { overrides: new Map(), lost: "", problems: [] };

/** The ruling by the present values of the PVs. */
function ruledStore(client: PvClient, { props }: Widget, rules: Rules): Readable<Ruling> {
  const pvs = rules.names.map((name) => client.pv(name, RULE_FIELDS));
  let seen: readonly (PvData | undefined)[] | undefined;
  let ruling = NOTHING_SET;
  return {
    subscribe: (listener) => {
      const ends = pvs.map((pv) => pv.subscribe(listener));
      return () => {
        for (const end of ends) end();
      };
    },
    getSnapshot: () => {
      const now = pvs.map((pv) => pv.getSnapshot());
      if (seen !== undefined && now.every((pv, at) => pv === seen?.[at])) return ruling;
      seen = now;
      const values = now.map(rulePv);
      const failed: string[] = [];
      const overrides = evaluate(
        rules,
        values,
        (name) => props.text(name),
        (problem) => failed.push(problem),
      );
      const lost = rules.names.filter((_, at) => values[at] === undefined).join(", ");
      const isSame = areEqual(ruling.overrides, overrides);
      const areAsBefore = failed.join("\n") === ruling.problems.join("\n");
      if (!isSame || !areAsBefore || lost !== ruling.lost) {
        const problems = areAsBefore ? ruling.problems : [...new Set(failed)];
        ruling = { overrides: isSame ? ruling.overrides : overrides, lost, problems };
      }
      return ruling;
    },
  };
}

function areEqual(one: Overrides, other: Overrides): boolean {
  return one.size === other.size && [...one].every(([name, value]) => other.get(name) === value);
}

const SEVERITIES = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

/** How Phoebus writes a value for `pvStr`: a number with its units, and without digits behind the point. */
const AS_TEXT: ValueFormat = { format: "DEFAULT", precision: 0, units: true };

/** A PV as rules see it: without a value unless it is the present one. */
function rulePv(pv: PvData | undefined): RulePv | undefined {
  if (pv?.value == null || !pv.connection.connected) return undefined;
  if (!pv.connection.readable || pv.connection.unresponsive) return undefined;
  const { array, bigint, number, text } = pv.value;
  const severity = SEVERITIES.indexOf(pv.status.severity ?? "");
  return {
    number:
      number ?? (text !== null && isText(pv.value) ? textNumber(text) : Number(array?.[0] ?? NaN)),
    integer: bigint ?? undefined,
    text: valueText(pv.value, pv.display, AS_TEXT),
    severity: severity < 0 ? 4 : severity,
  };
}

const textNumber = (text: string): number => (text.trim() === "" ? NaN : Number(text));

/** The component of a widget's type. It isn't a second one for each: there may be thousands. */
function usePlaced(widget: Widget, props: Props): ReactNode {
  const named = clientName(props.text("pv_name"));
  // Nothing of one PV is kept for another.
  const key = usePvKey(named?.name);
  if (!props.flag("visible")) return null;
  const { component: Known } = widget;
  const known = (
    <Known key={key} widget={widget} props={props} name={named?.name} problem={named?.problem} />
  );
  const { reach, source } = widget;
  if (named?.problem === undefined && reach === undefined) return known;
  return (
    <Fragment key={key}>
      {named?.problem !== undefined && <Problem text={named.problem} />}
      {reach !== undefined && <Reached source={source} reach={reach} props={props} />}
      {known}
    </Fragment>
  );
}

interface ReachedProps {
  readonly source: WidgetSource;
  readonly reach: Reach;
  readonly props: Props;
}

/** Tells where the widget is. */
function Reached({ props, reach, source }: ReachedProps) {
  useLayoutEffect(() => reach(source, placeOf(props)), [props, reach, source]);
  return null;
}

/** Marks the place of a widget that isn't shown. */
function Unknown({ props, widget }: WidgetProps) {
  return (
    <Box widget={widget} props={props} className="pvwire-display-unknown">
      <span>{widget.type}: not shown</span>
    </Box>
  );
}

interface BoundaryProps {
  readonly widget: Widget;
  readonly children: ReactNode;
}

/** Keeps a widget that can't be shown from taking the page with it. */
class Boundary extends Component<BoundaryProps, { readonly why?: string }> {
  override state: { readonly why?: string } = {};

  static getDerivedStateFromError(error: unknown): { readonly why: string } {
    return { why: error instanceof Error ? error.message : String(error) };
  }

  override render(): ReactNode {
    const { why } = this.state;
    if (why === undefined) return this.props.children;
    const { props, type } = this.props.widget;
    return <Broken why={`${type}: ${why}`} place={placeOf(props)} />;
  }
}

function Broken({
  place,
  why,
}: {
  readonly why: string;
  readonly place: ReturnType<typeof placeOf>;
}) {
  useNote("type", why);
  return (
    <div
      className="pvwire-display-box pvwire-display-unknown"
      style={{ left: place.x, top: place.y, width: place.width, height: place.height }}
      title={why}
    >
      <span>{why}</span>
    </div>
  );
}
