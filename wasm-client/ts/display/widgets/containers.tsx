/** Widgets around other widgets of the same file: groups, tabs and arrays. */

import { useMemo, useState, type CSSProperties, type ReactNode } from "react";

import { innerScope, ScopeContext, useScope, useShown } from "../context.js";
import { defaultsOf, UNKNOWN_DEFAULTS } from "../model/defaults.js";
import { macrosOf, type WidgetSource } from "../model/file.js";
import { cssColour } from "../model/palette.js";
import { Props } from "../model/props.js";
import { cssFont, inkOf, placeOf } from "../place.js";
import { useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Widgets } from "../WidgetView.js";
import { Box } from "./Box.js";

/**
 * The index of the tab that is shown, which the operator or a rule has chosen last, and the function that chooses
 * another one.
 */
export function useActiveTab(
  props: Props,
  count: number,
): readonly [at: number, choose: (at: number) => void] {
  const wanted = Math.max(0, Math.min(count - 1, props.integer("active_tab")));
  const [chosen, setChosen] = useState({ wanted, at: wanted });
  const at = chosen.wanted === wanted ? chosen.at : wanted;
  return [
    at,
    (next) => {
      setChosen({ wanted, at: next });
    },
  ];
}

const STYLES = ["GROUP", "TITLE", "LINE", "NONE"];

/** The place of a group's widgets in its box. */
function groupInset(props: Props): {
  readonly title: number;
  readonly x: number;
  readonly y: number;
} {
  const title = 2 + Math.trunc(1.2 * props.font().size);
  switch (props.choice("style", STYLES)) {
    case "NONE":
      return { title: 0, x: 0, y: 0 };
    case "LINE":
      return { title: 0, x: 1, y: 1 };
    case "TITLE":
      return { title, x: 1, y: title + 1 };
    default:
      return { title, x: title, y: title };
  }
}

export function Group({ props, widget }: WidgetProps): ReactNode {
  const style = props.choice("style", STYLES);
  const { title, x, y } = groupInset(props);
  const line = cssColour(props.colour("line_color"));
  const ground = cssColour(props.colour("background_color"));
  const border: CSSProperties =
    style === "NONE"
      ? {}
      : { inset: style === "GROUP" ? Math.trunc(title / 2) : 0, border: `1px solid ${line}` };
  const label: CSSProperties =
    style === "TITLE"
      ? { left: 0, top: 1, right: 0, height: title, backgroundColor: line }
      : { left: title, top: 0, backgroundColor: ground };
  return (
    <Box
      widget={widget}
      props={props}
      style={props.flag("transparent") ? {} : { backgroundColor: ground }}
    >
      {style !== "NONE" && <i className="pvwire-display-group-line" style={border} />}
      {title > 0 && (
        <span
          className="pvwire-display-group-title"
          style={{
            ...cssFont(props.font()),
            color: cssColour(props.colour("foreground_color")),
            ...label,
          }}
        >
          {props.text("name")}
        </span>
      )}
      <div className="pvwire-display-inside" style={{ left: x, top: y }}>
        <Widgets widgets={widget.source.children} />
      </div>
    </Box>
  );
}

/** Pages of widgets, of which one is shown. */
export function Tabs({ props, widget }: WidgetProps): ReactNode {
  const tabs = props.list("tabs");
  const [at, setAt] = useActiveTab(props, tabs.length);
  const height = Math.max(0, props.integer("tab_height"));
  const isAcross = props.choice("direction", ["HORIZONTAL", "VERTICAL"]) === "HORIZONTAL";
  const ground = cssColour(props.colour("background_color"));
  const ink = inkOf(props, "open");
  return (
    <Box
      widget={widget}
      props={props}
      className="pvwire-display-tabbed"
      style={{ flexDirection: isAcross ? "column" : "row", backgroundColor: ground }}
    >
      <div
        role="tablist"
        aria-orientation={isAcross ? "horizontal" : "vertical"}
        style={isAcross ? { flexDirection: "row", height } : { flexDirection: "column" }}
      >
        {tabs.map((tab, index) => (
          <button
            key={index}
            type="button"
            role="tab"
            aria-selected={index === at}
            style={{ ...ink, ...(isAcross ? {} : { height }), backgroundColor: ground }}
            onClick={() => {
              setAt(index);
            }}
          >
            {tab.text("name")}
          </button>
        ))}
      </div>
      <div role="tabpanel" className="pvwire-display-panel">
        {/* Another page has other widgets, whatever their numbers are. */}
        <Widgets key={at} widgets={widget.source.pages[at] ?? []} />
      </div>
    </Box>
  );
}

/** More than this isn't readable, and an array may have a million elements. */
const MAX_ELEMENTS = 200;

/** One widget for each element of an array, as many as fit. Its inner PV has the element's index. */
export function ArrayWidget({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition, value } = useWidgetPv(name);
  const scope = useScope();
  const { palette } = useShown();
  const [first] = widget.source.children;
  const size = value?.array?.length ?? (value === undefined ? 0 : 1);
  const place = placeOf(props);
  const child = useMemo(() => {
    if (first === undefined) return { width: 1, height: 1 };
    const defaults = defaultsOf(first.type) ?? UNKNOWN_DEFAULTS;
    return placeOf(new Props(first.node, defaults, { lookup: scope.lookup, palette }));
  }, [first, scope, palette]);
  const isDown = place.height - child.height >= place.width - child.width;
  const step = Math.max(1, isDown ? child.height : child.width);
  const fitting = Math.floor((isDown ? place.height : place.width) / step);
  const count = Math.min(size, fitting, MAX_ELEMENTS);
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={problem}
      style={{ backgroundColor: cssColour(props.colour("background_color")) }}
    >
      {first !== undefined &&
        Array.from({ length: count }, (_, at) => (
          <div
            key={at}
            className="pvwire-display-inside"
            style={isDown ? { top: at * step } : { left: at * step }}
          >
            <Element source={first} name={name ?? ""} at={at} />
          </div>
        ))}
    </Box>
  );
}

interface ElementProps {
  readonly source: WidgetSource;
  readonly name: string;
  readonly at: number;
}

function Element({ at, name, source }: ElementProps) {
  const outer = useScope();
  const scope = useMemo(
    () => innerScope(outer, [...macrosOf(source.node), ["pv_name", elementName(name, at)]]),
    [outer, source, name, at],
  );
  const inner = useMemo(() => withElement(source, elementName(name, at)), [source, name, at]);
  return (
    <ScopeContext.Provider value={scope}>
      <Widgets widgets={[inner]} />
    </ScopeContext.Provider>
  );
}

/** A formula, so that any array's element can be shown; it can't be written. */
const elementName = (name: string, at: number): string => `=elementAt(\`${name}\`, ${String(at)})`;

/** The widget with an element of the array as its PV. */
function withElement(source: WidgetSource, name: string): WidgetSource {
  const pv = { name: "pv_name", attributes: {}, children: [], text: name };
  const zero = (axis: string) => ({ name: axis, attributes: {}, children: [], text: "0" });
  const others = source.node.children.filter(
    (child) => !["pv_name", "x", "y"].includes(child.name),
  );
  return { ...source, node: { ...source.node, children: [...others, pv, zero("x"), zero("y")] } };
}
