/** Dials: meter and gauge, and that of the knob; and clocks. */

import { useEffect, useState, type HTMLAttributes, type ReactNode } from "react";

import { ticksOf } from "../../widgets/ticks.js";
import { formatOf, numberText, valueText } from "../model/format.js";
import { cssColour } from "../model/palette.js";
import { cssFont, placeOf } from "../place.js";
import { useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";
import { levelsOf, positionOn, rangeOf } from "./bar_scale.js";
import { sectorPath } from "./shapes.js";

/** Where a dial begins and how far it goes, in degrees anticlockwise from three o'clock. */
const DIALS = { meter: [170, -160], gauge: [225, -270], knob: [225, -270] } as const;

/** Width of a character of a value, in sizes of the font. */
const CHARACTER = 0.6;

/** How far a knob turns from one end to the other. */
export const TURN_DEGREES = 270;

export function Dial(of: WidgetProps): ReactNode {
  return <DialView of={of} problem={of.problem} />;
}

interface DialViewProps {
  readonly of: WidgetProps;
  readonly problem: string | undefined;
  readonly outcome?: string | undefined;
  /** A number that is about to be written, marked beside the needle, which shows the PV's value. */
  readonly target?: number | undefined;
  /** What makes it a control; absent where it only shows. */
  readonly control?: HTMLAttributes<HTMLDivElement>;
}

export function DialView({ control, of, outcome, problem, target }: DialViewProps): ReactNode {
  const { name, props, widget } = of;
  const { condition, pv, value } = useWidgetPv(name);
  const { height, width } = placeOf(props);
  const range = rangeOf(props, pv?.display);
  const [from, total] = DIALS[widget.type as "meter"];
  const isFlat = widget.type === "meter";
  const showsValue = props.flag("show_value") && props.flag("value_visible");
  const font = props.font();
  // Below a meter's hub, where neither its needle nor its labels are.
  const room = isFlat && showsValue ? Math.min(1.4 * font.size, height / 5) : 0;
  const above = height - room;
  const radius = Math.max(1, Math.min(width / 2, isFlat ? above * 0.85 : height / 2) - 8);
  const [x, y] = [width / 2, isFlat ? above * 0.93 : height / 2];
  const isLog = props.flag("log_scale");
  const position = positionOn(range, value?.number, isLog);
  const targeted = positionOn(range, target, isLog);
  const at = (share: number, distance: number): readonly [number, number] => {
    const angle = ((from + total * share) * Math.PI) / 180;
    return [x + distance * Math.cos(angle), y - distance * Math.sin(angle)];
  };
  const ink = cssColour(props.colour("foreground_color"));
  const small = Math.max(7, Math.min(font.size, radius / 5));
  const ticks = ticksOf(range, Math.max(2, Math.floor(radius / 16)));
  const levels = props.flag("show_limits") ? levelsOf(props, pv?.display, range) : [];
  const how = formatOf(props);
  const present = value === undefined ? "–" : valueText(value, pv?.display ?? null, how);
  const shown =
    target === undefined ? present : `${present} → ${numberText(target, pv?.display ?? null, how)}`;
  const arc = sectorPath([x, y], [radius, radius], from, total).arc;
  const needle = at(position ?? 0, radius * 0.85);
  const mark = at(targeted ?? 0, radius);
  const view = (
    <svg
      className="pvwire-display-dial"
      width={width}
      height={height}
      role="img"
      aria-label={`${name ?? props.text("name")}: ${shown}`}
      style={cssFont(font)}
    >
      <path
        d={arc}
        fill="none"
        stroke={cssColour(props.colour("bar_background_color"))}
        strokeWidth={4}
      />
      {levels.map(([level, kind]) => {
        const share = positionOn(range, level, isLog) ?? 0;
        const [start, end] = [at(share, radius - 4), at(share, radius + 4)];
        return (
          <line
            key={`${kind} ${String(level)}`}
            data-level={kind}
            x1={start[0]}
            y1={start[1]}
            x2={end[0]}
            y2={end[1]}
          />
        );
      })}
      {ticks.at.map((tick, index) => {
        const share = positionOn(range, tick, isLog) ?? 0;
        const [start, end, label] = [
          at(share, radius),
          at(share, radius - 6),
          at(share, radius - 8 - small),
        ];
        return (
          <g key={tick}>
            <line x1={start[0]} y1={start[1]} x2={end[0]} y2={end[1]} stroke={ink} />
            <text
              x={label[0]}
              y={label[1]}
              fill={ink}
              fontSize={small}
              textAnchor="middle"
              dominantBaseline="central"
            >
              {ticks.labels[index]}
            </text>
          </g>
        );
      })}
      {position !== undefined && (
        <line
          x1={x}
          y1={y}
          x2={needle[0]}
          y2={needle[1]}
          stroke={cssColour(props.colour("needle_color"))}
          strokeWidth={Math.max(2, radius / 25)}
        />
      )}
      {targeted !== undefined && (
        <circle
          data-target
          cx={mark[0]}
          cy={mark[1]}
          r={Math.max(3, radius / 14)}
          fill="none"
          stroke={cssColour(props.colour("needle_color"))}
          strokeWidth={2}
        />
      )}
      <circle
        cx={x}
        cy={y}
        r={Math.max(3, radius / 12)}
        fill={cssColour(props.colour("knob_color"))}
      />
      {showsValue && (
        <text
          x={x}
          y={isFlat ? height - room / 4 : y + radius * 0.95}
          fill={ink}
          fontSize={Math.min(
            isFlat ? room * 0.8 : small * 1.2,
            (2 * radius) / (CHARACTER * shown.length),
          )}
          textAnchor="middle"
        >
          {shown}
        </text>
      )}
      {props.text("title") !== "" && (
        <text x={x} y={small + 2} fill={ink} fontSize={small} textAnchor="middle">
          {props.text("title")}
        </text>
      )}
    </svg>
  );
  return (
    <Box
      {...of}
      condition={condition}
      problem={problem}
      outcome={outcome}
      style={
        props.flag("transparent")
          ? {}
          : { backgroundColor: cssColour(props.colour("background_color")) }
      }
    >
      {control === undefined ? (
        view
      ) : (
        <div className="pvwire-display-knob" {...control}>
          {view}
        </div>
      )}
    </Box>
  );
}

/** The time of this computer. */
function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => {
      setNow(new Date());
    }, 1000);
    return () => {
      clearInterval(timer);
    };
  }, []);
  return now;
}

export function Clock({ props, widget }: WidgetProps): ReactNode {
  const now = useNow();
  const { height, width } = placeOf(props);
  const radius = Math.max(1, Math.min(width, height) / 2 - 2);
  const [x, y] = [width / 2, height / 2];
  const hand = (share: number, length: number, thick: number, colour: string): ReactNode => {
    const angle = 2 * Math.PI * share - Math.PI / 2;
    const [across, down] = [
      x + length * radius * Math.cos(angle),
      y + length * radius * Math.sin(angle),
    ];
    return (
      <line
        x1={x}
        y1={y}
        x2={across}
        y2={down}
        stroke={cssColour(props.colour(colour))}
        strokeWidth={thick}
        strokeLinecap="round"
      />
    );
  };
  const minutes = now.getMinutes() + now.getSeconds() / 60;
  const hours = (now.getHours() % 12) + minutes / 60;
  return (
    <Box widget={widget} props={props}>
      <svg
        width={width}
        height={height}
        role="img"
        aria-label={`Clock: ${now.toLocaleTimeString()}`}
      >
        {!props.flag("transparent") && (
          <circle cx={x} cy={y} r={radius} fill={cssColour(props.colour("background_color"))} />
        )}
        {Array.from({ length: 12 }, (_, index) => {
          const angle = (index * Math.PI) / 6;
          return (
            <line
              key={index}
              x1={x + radius * 0.88 * Math.cos(angle)}
              y1={y + radius * 0.88 * Math.sin(angle)}
              x2={x + radius * 0.97 * Math.cos(angle)}
              y2={y + radius * 0.97 * Math.sin(angle)}
              stroke={cssColour(props.colour("hour_tick_mark_color"))}
              strokeWidth={Math.max(1, radius / 30)}
            />
          );
        })}
        {hand(hours / 12, 0.5, Math.max(2, radius / 15), "hour_color")}
        {hand(minutes / 60, 0.75, Math.max(2, radius / 20), "minute_color")}
        {props.flag("second_visible") && hand(now.getSeconds() / 60, 0.85, 1, "second_color")}
        <circle
          cx={x}
          cy={y}
          r={Math.max(2, radius / 15)}
          fill={cssColour(props.colour("knob_color"))}
        />
        {props.flag("date_visible") && (
          <text
            x={x}
            y={y + radius * 0.45}
            textAnchor="middle"
            fontSize={radius / 5}
            fill={cssColour(props.colour("date_color"))}
          >
            {now.toLocaleDateString()}
          </text>
        )}
        {props.flag("title_visible") && (
          <text
            x={x}
            y={y - radius * 0.35}
            textAnchor="middle"
            fontSize={radius / 6}
            fill={cssColour(props.colour("title_color"))}
          >
            {props.text("title")}
          </text>
        )}
      </svg>
    </Box>
  );
}

export function DigitalClock({ props, widget }: WidgetProps): ReactNode {
  const now = useNow();
  const { height } = placeOf(props);
  return (
    <Box
      widget={widget}
      props={props}
      className="pvwire-display-digits"
      style={{ fontSize: Math.max(8, height / 3) }}
    >
      <span>{now.toLocaleTimeString()}</span>
      {props.flag("date_visible") && <small>{now.toLocaleDateString()}</small>}
    </Box>
  );
}
