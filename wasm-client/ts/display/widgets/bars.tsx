/** Bars: progress, tank, thermometer and linear meter; and sliders. */

import {
  useCallback,
  useRef,
  useState,
  type CSSProperties,
  type KeyboardEvent,
  type ReactNode,
} from "react";

import { writeAttribute, writeStyle } from "../box_state.js";
import { ARROWS } from "../keys.js";
import type { Canvases } from "../canvases.js";
import { useLiveBox, type LiveValue } from "../live_box.js";
import { cssColour } from "../model/palette.js";
import { inkOf, placeOf } from "../place.js";
import { useSetter, useWidgetPv, type WidgetData } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";
import { levelsOf, positionOn, rangeOf, Scale } from "./bar_scale.js";

interface BarLook {
  readonly isAcross: boolean;
  readonly fill: string;
  readonly empty: string;
  readonly withScale: boolean;
  /** Shows a needle in place of a bar. */
  readonly isNeedle?: boolean;
  readonly className?: string;
}

/** Makes a bar. It isn't a component: there may be thousands. */
function useBar(of: WidgetProps, look: BarLook): ReactNode {
  const { name, props } = of;
  const [display, setDisplay] = useState<WidgetData["display"]>(null);
  const room = useRef<HTMLDivElement>(null);
  const { height, width } = placeOf(props);
  const range = rangeOf(props, display);
  const isLog = props.flag("log_scale");
  const { empty, fill, isAcross } = look;
  const withLevels = props.flag("show_alarm_limits", props.flag("show_limits", false));
  const isPlain = !withLevels && !look.withScale && look.isNeedle !== true;
  const isSquare = look.className === undefined;
  const painterOf = useCallback(
    (code: Canvases["code"]) =>
      code.barPainter(props, { isAcross, fill, empty }, ({ pv, value }) =>
        positionOn(rangeOf(props, pv?.display), value?.number, isLog),
      ),
    [props, isAcross, fill, empty, isLog],
  );
  const write = ({ pv, value }: LiveValue): void => {
    // Scale and levels are rendered.
    if (!isPlain) setDisplay(pv?.display ?? null);
    if (room.current !== null) {
      writeBar(room.current, look, { range: rangeOf(props, pv?.display), value, isLog });
    }
  };
  const box = useLiveBox(
    of,
    {
      className: `pvwire-display-bar-widget ${look.className ?? ""}`,
      style: {
        flexDirection: isAcross ? "column" : "row",
        ...(look.withScale ? inkOf(props) : {}),
      },
    },
    write,
    isPlain && isSquare ? painterOf : undefined,
  );
  const levels = withLevels ? levelsOf(props, display, range) : [];
  return box(
    <>
      {look.withScale && (
        <Scale
          props={props}
          range={range}
          isAcross={isAcross}
          length={isAcross ? width : height}
          isLog={isLog}
        />
      )}
      <div
        ref={room}
        className="pvwire-display-bar-room"
        role="meter"
        aria-label={name ?? props.text("name")}
        style={{ backgroundColor: look.empty }}
      >
        <i key={String(look.isAcross)} style={{ ...barStyle(look), backgroundColor: look.fill }} />
        {levels.map(([at, kind]) => {
          const place = `${(100 * (positionOn(range, at, isLog) ?? 0)).toFixed(3)}%`;
          return (
            <b
              key={`${kind} ${String(at)}`}
              data-level={kind}
              style={
                isAcross
                  ? { left: place, top: 0, bottom: 0, width: 1 }
                  : { bottom: place, left: 0, right: 0, height: 1 }
              }
            />
          );
        })}
      </div>
    </>,
  );
}

/** The style of a bar or needle without what the value changes. */
function barStyle({ isAcross, isNeedle }: BarLook): CSSProperties {
  const thickness = isNeedle === true ? 2 : undefined;
  return isAcross ? { width: thickness, height: "100%" } : { height: thickness, width: "100%" };
}

interface BarValue {
  readonly range: readonly [number, number];
  readonly value: LiveValue["value"];
  readonly isLog: boolean;
}

function writeBar(room: HTMLElement, look: BarLook, { isLog, range, value }: BarValue): void {
  const position = positionOn(range, value?.number, isLog);
  const bar = room.firstElementChild as HTMLElement;
  const share = `${(100 * (position ?? 0)).toFixed(3)}%`;
  const { isAcross, isNeedle } = look;
  const moved = isNeedle === true ? (["left", "bottom"] as const) : (["width", "height"] as const);
  writeStyle(bar, moved[isAcross ? 0 : 1], share);
  writeAttribute(bar, "hidden", position === undefined ? "" : undefined);
  writeAttribute(room, "data-unknown", position === undefined ? "true" : undefined);
  writeAttribute(room, "aria-valuemin", String(range[0]));
  writeAttribute(room, "aria-valuemax", String(range[1]));
  writeAttribute(room, "aria-valuenow", value?.number == null ? undefined : String(value.number));
  writeAttribute(room, "aria-valuetext", position === undefined ? "unknown" : value?.string);
}

export function ProgressBar(of: WidgetProps): ReactNode {
  const { props } = of;
  const look = {
    isAcross: props.flag("horizontal"),
    fill: cssColour(props.colour("fill_color")),
    empty: cssColour(props.colour("background_color")),
    withScale: props.flag("scale_visible"),
  };
  return useBar(of, look);
}

export function Tank(of: WidgetProps): ReactNode {
  const { props } = of;
  const look = {
    isAcross: props.flag("horizontal"),
    fill: cssColour(props.colour("fill_color")),
    empty: cssColour(props.colour("empty_color")),
    withScale: props.flag("scale_visible"),
  };
  return useBar(of, look);
}

export function Thermometer(of: WidgetProps): ReactNode {
  const look = {
    isAcross: false,
    fill: cssColour(of.props.colour("fill_color")),
    empty: "rgb(255 255 255)",
    withScale: false,
    className: "pvwire-display-thermometer",
  };
  return useBar(of, look);
}

export function LinearMeter(of: WidgetProps): ReactNode {
  const { props } = of;
  const look = {
    isAcross: props.flag("displayHorizontal"),
    fill: cssColour(props.colour("needle_color")),
    empty: cssColour(props.colour("background_color")),
    withScale: props.flag("scale_visible"),
    isNeedle: true,
  };
  return useBar(of, look);
}

/** Scrollbars and sliders. Without limits nothing can be moved. */
export function Slider({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition, pv, value } = useWidgetPv(name);
  const { outcome, whyDisabled, write } = useSetter(name);
  const [moved, setMoved] = useState<number>();
  const [least, most] = rangeOf(props, pv?.display, "controlRange");
  const disabled = problem ?? whyDisabled(props.flag("enabled"), pv);
  const isAcross = props.flag("horizontal");
  const { height, width } = placeOf(props);
  const step = props.number("increment", props.number("step_increment", 1));
  const number = moved ?? value?.number ?? undefined;
  const withScale = widget.type === "scaledslider" && props.flag("show_scale");
  const move = async (to: number): Promise<void> => {
    setMoved(to);
    await write(to, { checkLimits: true, coalesce: true });
    // The value of the PV is shown again, also if it took another one.
    setMoved((now) => (now === to ? undefined : now));
  };
  // Rounded as decimals, so that 0.1 + 0.2 is 0.3.
  const within = (to: number): number =>
    Math.max(least, Math.min(most, Number(to.toPrecision(15))));
  // The browser's own steps would show another number than the PV's.
  const slide = (to: number): void => {
    const rounded = within(step > 0 ? least + Math.round((to - least) / step) * step : to);
    if (rounded !== number) void move(rounded);
  };
  const turn = (event: KeyboardEvent): void => {
    const sign = ARROWS[event.key];
    if (sign === undefined || !(step > 0) || number === undefined) return;
    event.preventDefault();
    const to = within(number + sign * step);
    // From outside the limits nothing moves the other way.
    if (sign * (to - number) > 0) void move(to);
  };
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={disabled}
      outcome={outcome}
      className="pvwire-display-slider"
      style={{ flexDirection: isAcross ? "column" : "row", ...(withScale ? inkOf(props) : {}) }}
    >
      <input
        type="range"
        aria-label={name ?? props.text("name")}
        min={least}
        max={most}
        step="any"
        value={number ?? least}
        data-unknown={number === undefined || undefined}
        disabled={disabled !== undefined || number === undefined}
        style={isAcross ? {} : { writingMode: "vertical-lr", direction: "rtl" }}
        title={props.flag("show_value_tip", true) ? (value?.string ?? "") : undefined}
        onChange={(event) => {
          slide(Number(event.target.value));
        }}
        onKeyDown={turn}
      />
      {withScale && (
        <Scale
          props={props}
          range={[least, most]}
          isAcross={isAcross}
          length={isAcross ? width : height}
        />
      )}
    </Box>
  );
}
