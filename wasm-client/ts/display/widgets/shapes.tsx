/** Rectangles, ellipses, arcs and lines. Their lines are inside their boxes. */

import type { CSSProperties, ReactNode } from "react";

import { cssColour } from "../model/palette.js";
import type { Props } from "../model/props.js";
import { placeOf } from "../place.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";

/** Lengths of dashes and gaps, in widths of the line. */
const DASHES = [[], [10, 5], [1, 2], [10, 5, 1, 5], [10, 5, 1, 5, 1, 5]] as const;
const STYLES = ["SOLID", "DASH", "DOT", "DASHDOT", "DASHDOTDOT"];

function dashesOf(props: Props, width: number): string | undefined {
  const dashes = DASHES[STYLES.indexOf(props.choice("line_style", STYLES))] ?? [];
  return dashes.length === 0
    ? undefined
    : dashes.map((each) => each * Math.max(1, width)).join(" ");
}

const lineWidth = (props: Props): number => Math.max(0, props.integer("line_width"));

/** A border is inside its box: at most half of it. */
function borderWidth(props: Props): number {
  const { height, width } = placeOf(props);
  return Math.max(0, Math.min(props.integer("line_width"), width / 2, height / 2));
}

function shapeStyle(props: Props): CSSProperties {
  const width = borderWidth(props);
  const style = STYLES.indexOf(props.choice("line_style", STYLES));
  return {
    ...(width === 0
      ? {}
      : {
          borderWidth: width,
          borderStyle: style === 0 ? "solid" : style === 2 ? "dotted" : "dashed",
          borderColor: cssColour(props.colour("line_color")),
        }),
    ...(props.flag("transparent")
      ? {}
      : { backgroundColor: cssColour(props.colour("background_color")) }),
  };
}

export function Rectangle({ props, widget }: WidgetProps): ReactNode {
  const across = Math.max(0, props.integer("corner_width")) / 2;
  const down = Math.max(0, props.integer("corner_height")) / 2;
  const corners = across > 0 || down > 0;
  const borderRadius = corners ? `${String(across)}px / ${String(down)}px` : undefined;
  return <Box widget={widget} props={props} style={{ ...shapeStyle(props), borderRadius }} />;
}

export function Ellipse({ props, widget }: WidgetProps): ReactNode {
  return (
    <Box widget={widget} props={props} style={{ ...shapeStyle(props), borderRadius: "50%" }} />
  );
}

interface DrawingProps extends WidgetProps {
  readonly children: ReactNode;
}

function Drawing({ children, props, widget }: DrawingProps) {
  const { height, width } = placeOf(props);
  return (
    <Box widget={widget} props={props} className="pvwire-display-drawing">
      <svg width={Math.max(1, width)} height={Math.max(1, height)} aria-hidden="true">
        {children}
      </svg>
    </Box>
  );
}

/** The sector of an ellipse, anticlockwise from three o'clock. */
export function Arc(of: WidgetProps): ReactNode {
  const { props } = of;
  const { height, width } = placeOf(props);
  const line = lineWidth(props);
  const [start, total] = [props.number("start_angle"), props.number("total_angle")];
  const radii = [Math.max(0, (width - line) / 2), Math.max(0, (height - line) / 2)] as const;
  const centre = [width / 2, height / 2] as const;
  const path = sectorPath(centre, radii, start, total);
  const isFilled = !props.flag("transparent");
  const [outline, dashes] = [cssColour(props.colour("line_color")), dashesOf(props, line)];
  return (
    <Drawing {...of}>
      {isFilled && <path d={path.sector} fill={cssColour(props.colour("background_color"))} />}
      <path
        d={isFilled ? path.sector : path.arc}
        fill="none"
        stroke={outline}
        strokeWidth={line}
        strokeDasharray={dashes}
      />
    </Drawing>
  );
}

type Pair = readonly [x: number, y: number];

/** The sector, with its sides or as its arc alone. */
export function sectorPath(
  [x, y]: Pair,
  [across, down]: Pair,
  start: number,
  total: number,
): { readonly arc: string; readonly sector: string } {
  const clipped = Math.max(-359.99, Math.min(359.99, total));
  const at = (angle: number): string => {
    const radians = (angle * Math.PI) / 180;
    return `${(x + across * Math.cos(radians)).toFixed(3)} ${(y - down * Math.sin(radians)).toFixed(3)}`;
  };
  const large = Math.abs(clipped) > 180 ? 1 : 0;
  const sweep = clipped > 0 ? 0 : 1;
  const radii = `${across.toFixed(3)} ${down.toFixed(3)}`;
  const end = `A${radii} 0 ${String(large)} ${String(sweep)} ${at(start + clipped)}`;
  const arc = `M${at(start)} ${end}`;
  const isWhole = Math.abs(total) >= 360;
  return { arc, sector: isWhole ? `${arc}Z` : `M${String(x)} ${String(y)} L${at(start)} ${end}Z` };
}

/** The points of a line, relative to its box. */
function pointsOf(props: Props): Pair[] {
  return props.list("points").flatMap(({ node }) => {
    const [x, y] = [Number(node.attributes.x), Number(node.attributes.y)];
    return Number.isFinite(x) && Number.isFinite(y) ? [[x, y] as const] : [];
  });
}

const pathOf = (points: readonly Pair[]): string =>
  points.map((point) => point.join(",")).join(" ");

export function Polygon(of: WidgetProps): ReactNode {
  const { props } = of;
  const line = lineWidth(props);
  return (
    <Drawing {...of}>
      <polygon
        points={pathOf(pointsOf(props))}
        fill={props.flag("transparent") ? "none" : cssColour(props.colour("background_color"))}
        stroke={line === 0 ? "none" : cssColour(props.colour("line_color"))}
        strokeWidth={line}
        strokeDasharray={dashesOf(props, line)}
        strokeLinejoin="round"
      />
    </Drawing>
  );
}

const ARROWS = ["NONE", "FROM", "TO", "BOTH"];

export function Polyline(of: WidgetProps): ReactNode {
  const { props } = of;
  const points = pointsOf(props);
  const line = lineWidth(props);
  const colour = cssColour(props.colour("line_color"));
  const arrows = props.choice("arrows", ARROWS);
  const length = Math.max(0, props.integer("arrow_length"));
  return (
    <Drawing {...of}>
      <polyline
        points={pathOf(points)}
        fill="none"
        stroke={line === 0 ? "none" : colour}
        strokeWidth={line}
        strokeDasharray={dashesOf(props, line)}
        strokeLinejoin="round"
      />
      {(arrows === "FROM" || arrows === "BOTH") && (
        <polygon points={arrowHead(points[1], points[0], length)} fill={colour} />
      )}
      {(arrows === "TO" || arrows === "BOTH") && (
        <polygon points={arrowHead(points.at(-2), points.at(-1), length)} fill={colour} />
      )}
    </Drawing>
  );
}

/** A triangle at `tip` that points away from `from`. */
function arrowHead(from: Pair | undefined, tip: Pair | undefined, length: number): string {
  if (from === undefined || tip === undefined) return "";
  const [across, down] = [tip[0] - from[0], tip[1] - from[1]];
  const distance = Math.hypot(across, down) || 1;
  const [x, y] = [(across / distance) * length, (down / distance) * length];
  const [backX, backY] = [tip[0] - x, tip[1] - y];
  return pathOf([tip, [backX - y / 4, backY + x / 4], [backX + y / 4, backY - x / 4]]);
}
