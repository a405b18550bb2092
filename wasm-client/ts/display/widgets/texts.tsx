/** Labels, and values as text. Values are written into the page without rendering. */

import { useCallback, useMemo, useRef, type CSSProperties, type ReactNode } from "react";

import { writeAttribute, writeText } from "../box_state.js";
import type { Canvases } from "../canvases.js";
import { useLiveBox, type LiveValue } from "../live_box.js";
import { formatOf, valueText, type ValueFormat } from "../model/format.js";
import { alignmentOf, autoSize, borderOf, inkOf, LINE_HEIGHT, placeOf } from "../place.js";
import type { Props } from "../model/props.js";
import type { WidgetData } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";

const STEPS = ["NONE", "NINETY", "ONEEIGHTY", "MINUS_NINETY"];

/** Style of the text of a widget, turned in steps of 90° inside its box. */
export function textStyle(props: Props): CSSProperties {
  const step = STEPS.indexOf(props.choice("rotation_step", STEPS));
  const { height, width } = placeOf(props);
  const whiteSpace = props.flag("wrap_words") ? "pre-wrap" : "pre";
  const common: CSSProperties = { ...alignmentOf(props), whiteSpace };
  if (step <= 0) return { ...common, width: "100%", height: "100%" };
  const isSideways = step !== 2;
  return {
    ...common,
    position: "absolute",
    left: "50%",
    top: "50%",
    width: isSideways ? height : width,
    height: isSideways ? width : height,
    transform: `translate(-50%, -50%) rotate(${String(-90 * step)}deg)`,
  };
}

/**
 * The style of a box with a text that needs no element for its alignment; `undefined` if it does.
 * Each element around a text makes its layout dearer.
 */
function plainTextStyle(props: Props): CSSProperties | undefined {
  const { alignItems, textAlign } = alignmentOf(props);
  if (props.choice("rotation_step", STEPS) !== "NONE" || alignItems !== "start") return undefined;
  return { textAlign, whiteSpace: props.flag("wrap_words") ? "pre-wrap" : "pre" };
}

export function Label({ props, widget }: WidgetProps): ReactNode {
  const lines = props.flag("wrap_words") ? linesOf(props) : 1;
  const isClamped = lines > 1 && !props.flag("auto_size");
  return (
    <Box
      widget={widget}
      props={props}
      className="pvwire-display-text"
      style={{ ...inkOf(props), ...borderOf(props), ...autoSize(props) }}
    >
      <span style={textStyle(props)}>
        <span
          data-clamped={isClamped || undefined}
          style={isClamped ? { WebkitLineClamp: lines } : wrappingOf(props)}
        >
          {props.text("text")}
        </span>
      </span>
    </Box>
  );
}

/** The text before the first value, which isn't one that a PV may have. */
export const NO_VALUE = "–";

function textOf(pv: WidgetData | undefined, how: ValueFormat): string {
  return pv?.value == null ? NO_VALUE : valueText(pv.value, pv.display, how) || " ";
}

/** Widths of characters at most, in sizes of the font. */
const FIGURE = 0.7;
const CHARACTER = 1.05;

/** Whether a text surely fits into a widget's box. It isn't measured: that would be a layout. */
function fitsIn(props: Props): (text: string) => boolean {
  const { size } = props.font();
  const { height, width } = placeOf(props);
  if (textStyle(props).transform !== undefined || size * LINE_HEIGHT > height) return () => false;
  return (text) => {
    // Lines and tabs take more room than their characters.
    if (/[\n\r\t]/.test(text)) return false;
    if (text.length * CHARACTER * size <= width) return true;
    const figures = text.replace(/[^-+.,:\d eE]/g, "").length;
    const others = text.length - figures;
    return (figures * FIGURE + others * CHARACTER) * size <= width;
  };
}

/** How many lines a box has room for. */
function linesOf(props: Props): number {
  const { height, width } = placeOf(props);
  const isSideways = STEPS.indexOf(props.choice("rotation_step", STEPS)) % 2 === 1;
  return Math.floor((isSideways ? width : height) / (LINE_HEIGHT * props.font().size));
}

/** In a box of one line nothing wraps: a second line, such as that of the units, would not be seen. */
const wrappingOf = (props: Props): CSSProperties =>
  linesOf(props) < 2 ? { whiteSpace: "pre" } : {};

/** The value under the pointer: a tooltip that changes with each update makes it dearer. */
let pointed: HTMLElement | undefined;

/** The pointer is over this element of a display, or over none. */
export function point(element: Element | undefined): void {
  const value = element?.closest<HTMLElement>('.pvwire-display-value [data-part="value"]');
  if (value === pointed) return;
  if (pointed !== undefined) writeAttribute(pointed, "title", undefined);
  pointed = value ?? undefined;
  if (pointed !== undefined) writeTip(pointed);
}

/** The value's own tooltip: the whole text, and the tooltip of its box. */
function writeTip(value: HTMLElement): void {
  const box = value.closest(".pvwire-display-box")?.getAttribute("title") ?? "";
  writeAttribute(value, "title", `${value.textContent}\n${box}`.trim());
}

export function TextUpdate(of: WidgetProps): ReactNode {
  const { name, props } = of;
  const how = useMemo(() => formatOf(props), [props]);
  const span = useRef<HTMLSpanElement>(null);
  const fits = useMemo(() => fitsIn(props), [props]);
  const painterOf = useCallback(
    (code: Canvases["code"]) =>
      code.textPainter(props, ({ pv }) => {
        const text = textOf(pv, how);
        return fits(text) ? text : undefined;
      }),
    [props, how, fits],
  );
  const fitted = useRef<typeof fits>(undefined);
  const write = ({ pv }: LiveValue, box: HTMLElement): void => {
    const text = name === undefined ? NO_VALUE : textOf(pv, how);
    const isSame = !writeText(span.current, text);
    if (span.current !== null && span.current === pointed) writeTip(pointed);
    if (isSame && fitted.current === fits) return;
    fitted.current = fits;
    writeAttribute(box, "data-wide", fits(text) ? undefined : "true");
  };
  const plain = plainTextStyle(props);
  const look = {
    className: "pvwire-display-text pvwire-display-value",
    style: { ...inkOf(props), ...borderOf(props), ...plain },
  };
  const box = useLiveBox(of, look, write, painterOf);
  const value = (
    <span ref={span} data-part="value" style={wrappingOf(props)}>
      {NO_VALUE}
    </span>
  );
  return box(plain === undefined ? <span style={textStyle(props)}>{value}</span> : value);
}

/** One of some texts, by the value. */
export function TextSymbol(of: WidgetProps): ReactNode {
  const { props } = of;
  const [texts, index] = [props.texts("symbols"), props.integer("array_index")];
  const span = useRef<HTMLSpanElement>(null);
  const look = { className: "pvwire-display-text", style: inkOf(props) };
  const box = useLiveBox(of, look, ({ value }) => {
    const number = value?.number ?? Number(value?.array?.[index] ?? NaN);
    writeText(span.current, texts[Math.trunc(number)] ?? NO_VALUE);
  });
  return box(
    <span style={textStyle(props)}>
      <span ref={span} data-part="value">
        {NO_VALUE}
      </span>
    </span>,
  );
}
