/** Lamps: of one bit, of one of some states, and of the bits of an integer. */

import { useCallback, useMemo, useRef, type CSSProperties, type ReactNode } from "react";

import { writeAttribute, writeStyle, writeText } from "../box_state.js";
import type { Canvases } from "../canvases.js";
import { useLiveBox, type BoxLook, type LiveValue } from "../live_box.js";
import { brightnessOf, cssColour, type Rgba } from "../model/palette.js";
import type { Props } from "../model/props.js";
import { cssFont, lampLine, placeOf } from "../place.js";
import type { WidgetProps } from "../widget.js";
import { bitOf, wholeOf } from "./use_bit.js";

interface LampState {
  /** `undefined` while the value isn't known. */
  readonly colour: Rgba | undefined;
  readonly label: string;
}

/** Makes a lamp. It isn't a component: there may be thousands. */
function useLamp(of: WidgetProps, stateOf: (now: LiveValue) => LampState): ReactNode {
  const { props } = of;
  const lamp = useRef<HTMLElement>(null);
  const painterOf = useCallback(
    (code: Canvases["code"]) =>
      code.lampPainter(props, (now) => {
        const { colour, label } = stateOf(now);
        return label === "" ? colour : undefined;
      }),
    [props, stateOf],
  );
  const write = (now: LiveValue): void => {
    if (lamp.current !== null) writeLamp(lamp.current, props, stateOf(now));
  };
  // What doesn't change is the box's: each style that changes is worked out with all others of its element.
  const style: CSSProperties = {
    ...cssFont(props.font()),
    ["--pvwire-display-lamp-line" as string]: cssColour(props.colour("line_color")),
    ["--pvwire-display-lamp-width" as string]: `${String(lampLine(props))}px`,
  };
  const box = useLiveBox(of, { className: "pvwire-display-led", style }, write, painterOf);
  return box(
    <i
      ref={lamp}
      className="pvwire-display-lamp"
      style={{ borderRadius: props.flag("square") ? 0 : "50%" }}
    />,
  );
}

const lit = new WeakMap<HTMLElement, LampState & { readonly props: Props }>();

function writeLamp(lamp: HTMLElement, props: Props, { colour, label }: LampState): void {
  const before = lit.get(lamp);
  if (before?.props === props && before.colour === colour && before.label === label) return;
  lit.set(lamp, { props, colour, label });
  writeAttribute(lamp, "data-unknown", colour === undefined ? "true" : undefined);
  writeStyle(lamp, "backgroundColor", colour === undefined ? "" : cssColour(colour));
  writeStyle(lamp, "color", cssColour(inkOn(props, colour)));
  const text = colour === undefined ? "" : label;
  writeText(lamp, text);
  writeAttribute(lamp, "data-labelled", text === "" ? undefined : "true");
}

/** Text as bright as its ground isn't readable: then it is black or white. */
function inkOn(props: Props, ground: Rgba | undefined): Rgba {
  const ink = props.colour("foreground_color");
  if (ground === undefined || Math.abs(brightnessOf(ink) - brightnessOf(ground)) > 0.2) return ink;
  return brightnessOf(ground) > 0.5 ? [0, 0, 0, 255] : [255, 255, 255, 255];
}

export function Led(of: WidgetProps): ReactNode {
  const { props } = of;
  const stateOf = useMemo(() => {
    const [bit, isFromPv] = [props.integer("bit"), props.flag("labels_from_pv")];
    const state = (which: "on" | "off"): LampState => ({
      colour: props.colour(`${which}_color`),
      label: props.text(`${which}_label`),
    });
    const [on, off] = [state("on"), state("off")];
    return ({ pv, value }: LiveValue): LampState => {
      const integer = value?.bigint ?? wholeOf(value?.number);
      if (integer === undefined) return { colour: undefined, label: "" };
      const { colour, label } = bitOf(integer, bit) ? on : off;
      const choices = isFromPv ? pv?.display?.choices : undefined;
      return { colour, label: choices?.[Number(integer)] ?? label };
    };
  }, [props]);
  return useLamp(of, stateOf);
}

const STATE_COLOURS: readonly Rgba[] = [
  [60, 100, 60, 255],
  [60, 255, 60, 255],
];

export function MultiStateLed(of: WidgetProps): ReactNode {
  const { props } = of;
  const stateOf = useMemo(() => {
    const states = props.list("states", { label: "" }).map((state, index) => ({
      value: state.number("value", index),
      colour: state.colour("color", STATE_COLOURS[index] ?? STATE_COLOURS[0]),
      label: state.text("label"),
    }));
    const other = { colour: props.colour("fallback_color"), label: props.text("fallback_label") };
    return ({ value }: LiveValue): LampState => {
      const number = value?.number ?? undefined;
      if (number === undefined) return { colour: undefined, label: "" };
      return states.find((state) => state.value === number) ?? other;
    };
  }, [props]);
  return useLamp(of, stateOf);
}

/** Bits, the highest first unless the display reverses them. */
export function ByteMonitor(of: WidgetProps): ReactNode {
  const { props } = of;
  const bits = useMemo(() => bitsOf(props), [props]);
  const look: BoxLook = {
    className: "pvwire-display-bits",
    style: { ...cssFont(props.font()), flexDirection: bits.isAcross ? "row" : "column" },
  };
  const box = useLiveBox(of, look, ({ value }, element) => {
    const integer = value?.bigint ?? wholeOf(value?.number);
    bits.list.forEach(({ number }, at) => {
      const isOn = integer === undefined ? undefined : bitOf(integer, number);
      writeBit(element.children[at] as HTMLElement, bits, isOn);
    });
  });
  return box(
    bits.list.map(({ label, number, style }) => (
      <i
        key={number}
        className="pvwire-display-lamp"
        title={`Bit ${String(number)}`}
        data-labelled={label !== "" || undefined}
        style={style}
      >
        {label}
      </i>
    )),
  );
}

interface Bits {
  readonly isAcross: boolean;
  readonly on: BitLook;
  readonly off: BitLook;
  readonly unknown: BitLook;
  readonly list: readonly {
    readonly number: number;
    readonly label: string;
    readonly style: CSSProperties;
  }[];
}

interface BitLook {
  readonly ground: string;
  readonly ink: string;
  readonly on: "true" | "false" | undefined;
}

function bitsOf(props: Props): Bits {
  const count = Math.max(0, Math.min(64, props.integer("numBits")));
  const [first, isAcross] = [props.integer("startBit"), props.flag("horizontal")];
  const [isReversed, isSquare] = [props.flag("bitReverse"), props.flag("square")];
  const labels = props.texts("labels");
  const { height, width } = placeOf(props);
  const lamp = isAcross
    ? Math.min(width / Math.max(1, count), height)
    : Math.min(width, height / Math.max(1, count));
  const round: CSSProperties = {
    borderRadius: "50%",
    width: lamp,
    height: lamp,
    flex: "none",
    margin: "auto",
  };
  const look = (on: BitLook["on"], colour: Rgba | undefined): BitLook => ({
    ground: colour === undefined ? "" : cssColour(colour),
    ink: cssColour(inkOn(props, colour)),
    on,
  });
  const list = Array.from({ length: count }, (_, place) => {
    const bit = isReversed ? place : count - 1 - place;
    const label = labels[bit] ?? "";
    return { number: first + bit, label, style: !isSquare && label === "" ? round : { flex: 1 } };
  });
  return {
    isAcross,
    on: look("true", props.colour("on_color")),
    off: look("false", props.colour("off_color")),
    unknown: look(undefined, undefined),
    list,
  };
}

function writeBit(lamp: HTMLElement, { off, on, unknown }: Bits, isOn: boolean | undefined): void {
  const look = isOn === undefined ? unknown : isOn ? on : off;
  writeAttribute(lamp, "data-unknown", isOn === undefined ? "true" : undefined);
  writeAttribute(lamp, "data-on", look.on);
  writeStyle(lamp, "backgroundColor", look.ground);
  writeStyle(lamp, "color", look.ink);
}
