/** Widgets that show other displays: embedded ones, navigation tabs, and templates. */

import { type CSSProperties, type ReactNode, useContext, useEffect, useMemo } from "react";

import { resolveFile, webPage } from "../model/address.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";
import {
  displayScope,
  ScaleContext,
  type Scope,
  ScopeContext,
  useScope,
  useNote,
  useShown,
} from "../context.js";
import { defaultsOf, UNKNOWN_DEFAULTS } from "../model/defaults.js";
import { type DisplayFile, isLegacy, macrosOf, type WidgetSource } from "../model/file.js";
import { inspect } from "../model/inspect.js";
import { innerMacros, type Macros } from "../model/macros.js";
import { cssColour, type Palette } from "../model/palette.js";
import { type Defaults, Props } from "../model/props.js";
import type { XmlNode } from "../model/xml.js";
import { borderOf, cssFont, placeOf } from "../place.js";
import { useFile } from "../loader.js";
import { Widgets } from "../WidgetView.js";
import { useActiveTab } from "./containers.js";

/** Displays inside displays inside displays: one that embeds itself ends here. */
const MAX_DEPTH = 10;

const RESIZES = ["NONE", "CONTENT", "WIDGET", "STRETCH", "CROP"];

interface FoundDisplay {
  readonly file?: DisplayFile | undefined;
  readonly problem?: string | undefined;
}

/** The display that a widget names; what of it isn't shown is added to the list. */
function useEmbedded(name: string): FoundDisplay {
  const shown = useShown();
  const scope = useScope();
  const found = useMemo(
    () =>
      scope.depth >= MAX_DEPTH
        ? { problem: `${name}: more than ${String(MAX_DEPTH)} displays inside each other` }
        : resolveFile(name, scope.file.address, shown.root),
    [name, scope, shown.root],
  );
  const state = useFile(found.problem === undefined ? found.address : undefined);
  const isEmpty = name.trim() === "";
  const problem = isEmpty ? undefined : (found.problem ?? state.problem);
  const { file } = state;
  useEffect(() => {
    const notes =
      problem !== undefined
        ? [{ kind: "file" as const, text: problem }]
        : (file === undefined ? [] : inspect(file)).flatMap(({ count, kind, text }) =>
            Array.from({ length: Math.min(count, 1000) }, () => ({ kind, text })),
          );
    const ends = notes.map(shown.note);
    return () => {
      for (const end of ends) end();
    };
  }, [problem, file, shown]);
  return { file, problem };
}

/** What of a display is shown, with its size. */
interface Content {
  readonly scope: Scope;
  readonly widgets: readonly WidgetSource[];
  readonly width: number;
  readonly height: number;
  readonly ground: string;
  readonly isTransparent: boolean;
}

/** A display's own properties, as Phoebus has their defaults. */
const DISPLAY_DEFAULTS = { ...defaultsOf("group"), width: 800, height: 600 };

/** All of a display, or the first of its groups with this name; a name that no group has is in the list. */
function useContent(file: DisplayFile | undefined, macros: Macros, groupName = "") {
  const outer = useScope();
  const { palette } = useShown();
  const content = useMemo(() => {
    if (file === undefined) return undefined;
    const fixed = { id: outer.lookup("DID") ?? "", name: outer.lookup("DNAME") ?? "" };
    const scope = displayScope(file, macros, fixed, outer.depth + 1);
    return { ...contentOf(file, scope, groupName, palette), scope };
  }, [file, groupName, macros, outer, palette]);
  const lost = `${file?.address ?? ""}: no group ${groupName}, so all of it is shown`;
  useNote("file", content?.isLost === true ? lost : undefined);
  return content;
}

function contentOf(file: DisplayFile, scope: Scope, groupName: string, palette: Palette) {
  const propsOf = (node: XmlNode, defaults: Defaults): Props =>
    new Props(node, defaults, { lookup: scope.lookup, palette });
  const group = file.widgets.find(
    ({ node, type }) =>
      groupName !== "" && type === "group" && propsOf(node, {}).text("name") === groupName,
  );
  const isLost = groupName !== "" && group === undefined;
  const props = propsOf(group?.node ?? file.node, DISPLAY_DEFAULTS);
  const looks = {
    ground: cssColour(props.colour("background_color")),
    isTransparent: group !== undefined && props.flag("transparent"),
    isLost,
  };
  if (group === undefined && !isLegacy(file)) {
    const { height, width } = placeOf(props);
    return { ...looks, widgets: file.widgets, height, width };
  }
  // As Phoebus does, these are moved to the corner, and have the size of their widgets.
  const widgets = group?.children ?? file.widgets;
  const places = widgets.map(({ node, type }) =>
    placeOf(propsOf(node, defaultsOf(type) ?? UNKNOWN_DEFAULTS)),
  );
  // Without widgets nothing is moved.
  const left = Math.min(...places.map(({ x }) => x));
  const top = Math.min(...places.map(({ y }) => y));
  const right = Math.max(0, ...places.map(({ width, x }) => x + width));
  const bottom = Math.max(0, ...places.map(({ height, y }) => y + height));
  const box = { x: -left, y: -top, width: right, height: bottom, style: 3, transparent: true };
  const own = Object.entries(box).map(([name, value]) => ({ ...EMPTY, name, text: String(value) }));
  const specs = group?.node.children.filter(({ name }) => name === "name" || name === "macros");
  const node = { ...EMPTY, name: "widget", children: [...own, ...(specs ?? [])] };
  const moved = { id: group?.id ?? -1, type: "group", node, children: widgets, pages: [] };
  const size = { width: Math.max(0, right - left), height: Math.max(0, bottom - top) };
  return { ...looks, widgets: [moved], ...size };
}

const EMPTY = { attributes: {}, children: [], text: "" };

interface ContentViewProps {
  readonly content: Content;
  readonly width: number;
  readonly height: number;
  readonly resize: string;
  readonly isTransparent: boolean;
}

/** A display in a box. */
function ContentView({ content, height, isTransparent, resize, width }: ContentViewProps) {
  const outer = useContext(ScaleContext);
  const [across, down] = [width / Math.max(1, content.width), height / Math.max(1, content.height)];
  const scale =
    resize === "CONTENT"
      ? [Math.min(across, down), Math.min(across, down)]
      : resize === "STRETCH"
        ? [across, down]
        : [1, 1];
  const isScaled = resize === "CONTENT" || resize === "STRETCH";
  const style: CSSProperties = {
    width: isScaled ? content.width : Math.max(content.width, resize === "CROP" ? 0 : width),
    height: isScaled ? content.height : Math.max(content.height, resize === "CROP" ? 0 : height),
    ...(isScaled ? { transform: `scale(${scale.join(", ")})` } : {}),
    ...(isTransparent ? {} : { backgroundColor: content.ground }),
  };
  return (
    <ScopeContext.Provider value={content.scope}>
      <div className="pvwire-display-content" style={style}>
        <ScaleContext.Provider value={isScaled ? undefined : outer}>
          <Widgets widgets={content.widgets} />
        </ScaleContext.Provider>
      </div>
    </ScopeContext.Provider>
  );
}

export function Embedded({ props, widget }: WidgetProps): ReactNode {
  const { file, problem } = useEmbedded(props.text("file") || props.text("opi_file"));
  const { macros } = useScope();
  const { height, width } = placeOf(props);
  const resize = props.choice("resize", RESIZES);
  const content = useContent(file, macros, props.text("group_name"));
  const own: CSSProperties =
    resize === "WIDGET" && content !== undefined
      ? { width: content.width, height: content.height }
      : {};
  const isCut =
    content !== undefined &&
    (resize === "NONE" || resize === "CROP") &&
    (content.width > width || content.height > height);
  const overflow = !isCut ? "clip" : resize === "NONE" ? "auto" : "hidden";
  return (
    <Box
      widget={widget}
      props={props}
      problem={problem}
      className="pvwire-display-embedded"
      style={{ ...own, ...borderOf(props), overflow }}
    >
      <Problem problem={problem} />
      {content !== undefined && (
        <ContentView
          content={content}
          width={width}
          height={height}
          resize={resize}
          isTransparent={content.isTransparent || props.flag("transparent")}
        />
      )}
    </Box>
  );
}

function Problem({ problem }: { readonly problem: string | undefined }) {
  return problem === undefined ? null : (
    <span className="pvwire-display-unknown pvwire-display-problem">{problem}</span>
  );
}

export function NavTabs({ props, widget }: WidgetProps): ReactNode {
  const tabs = props.list("tabs");
  const [at, setAt] = useActiveTab(props, tabs.length);
  const isAcross = props.choice("direction", ["HORIZONTAL", "VERTICAL"]) === "HORIZONTAL";
  const size = { width: props.integer("tab_width"), height: props.integer("tab_height") };
  const gap = Math.max(0, props.integer("tab_spacing"));
  const place = placeOf(props);
  const tab = tabs[at];
  const colourOf = (one: Props, isSelected: boolean): string => {
    const name = isSelected ? "selected_color" : "deselected_color";
    const isOwn = props.flag("enable_per_tab_colors") && one.has(`individual_${name}`);
    return cssColour(isOwn ? one.colour(`individual_${name}`) : props.colour(name));
  };
  return (
    <Box
      widget={widget}
      props={props}
      className="pvwire-display-tabbed"
      style={{ flexDirection: isAcross ? "column" : "row" }}
    >
      <div role="tablist" style={{ flexDirection: isAcross ? "row" : "column", gap }}>
        {tabs.map((one, index) => (
          <button
            key={index}
            type="button"
            role="tab"
            aria-selected={index === at}
            style={{
              ...cssFont(props.font()),
              ...size,
              backgroundColor: colourOf(one, index === at),
            }}
            onClick={() => {
              setAt(index);
            }}
          >
            {one.text("name")}
          </button>
        ))}
      </div>
      <div
        role="tabpanel"
        className="pvwire-display-panel"
        style={{ backgroundColor: tab && colourOf(tab, true) }}
      >
        {tab !== undefined && (
          <TabContent
            key={at}
            tab={tab}
            width={place.width - (isAcross ? 0 : size.width)}
            height={place.height - (isAcross ? size.height : 0)}
          />
        )}
      </div>
    </Box>
  );
}

interface TabContentProps {
  readonly tab: Props;
  readonly width: number;
  readonly height: number;
}

function TabContent({ height, tab, width }: TabContentProps) {
  const { macros: outer } = useScope();
  const { file, problem } = useEmbedded(tab.text("file"));
  const macros = useMemo(() => innerMacros(outer, macrosOf(tab.node)), [outer, tab.node]);
  const content = useContent(file, macros, tab.text("group_name"));
  return (
    <>
      <Problem problem={problem} />
      {content !== undefined && (
        <ContentView
          content={content}
          width={width}
          height={height}
          resize="NONE"
          isTransparent={false}
        />
      )}
    </>
  );
}

/** One display several times, with other macros each. */
export function Template({ props, widget }: WidgetProps): ReactNode {
  const { file, problem } = useEmbedded(props.text("file"));
  const { macros: outer } = useScope();
  const content = useContent(file, outer);
  const isAcross = props.flag("horizontal");
  const gap = props.integer("gap");
  const wrap = props.integer("wrap_count");
  const steps = {
    x: (content?.width ?? 0) + gap,
    y: (content?.height ?? 0) + gap,
  };
  return (
    <Box widget={widget} props={props} problem={problem} className="pvwire-display-embedded">
      <Problem problem={problem} />
      {file !== undefined &&
        props.list("instances").map((instance, index) => {
          const [along, line] = wrap > 0 ? [index % wrap, Math.floor(index / wrap)] : [index, 0];
          const [column, row] = isAcross ? [along, line] : [line, along];
          return (
            <div
              key={index}
              className="pvwire-display-inside"
              style={{ left: column * steps.x, top: row * steps.y }}
            >
              <Instance file={file} instance={instance} transparent={props.flag("transparent")} />
            </div>
          );
        })}
    </Box>
  );
}

interface InstanceProps {
  readonly file: DisplayFile;
  readonly instance: Props;
  readonly transparent: boolean;
}

function Instance({ file, instance, transparent }: InstanceProps) {
  const { macros: outer } = useScope();
  const macros = useMemo(() => innerMacros(outer, macrosOf(instance.node)), [outer, instance.node]);
  const content = useContent(file, macros);
  return content === undefined ? null : (
    <ContentView content={content} width={0} height={0} resize="CROP" isTransparent={transparent} />
  );
}

export function WebBrowser({ props, widget }: WidgetProps): ReactNode {
  const url = props.text("url");
  const address = webPage(url);
  const isForeign = address !== undefined && new URL(address).origin !== location.origin;
  return (
    <Box widget={widget} props={props}>
      {address === undefined || !isForeign ? (
        // A page of this site could act as the operator in this page's name.
        <span className="pvwire-display-unknown">{`${url}: only pages of other sites are shown`}</span>
      ) : (
        <iframe
          className="pvwire-display-frame"
          src={address}
          title={address}
          sandbox="allow-scripts allow-same-origin allow-forms"
          referrerPolicy="no-referrer"
        />
      )}
    </Box>
  );
}
