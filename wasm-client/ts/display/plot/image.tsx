/** The image: how a display wants its elements read, scaled and coloured. */

import { useMemo, type ReactNode } from "react";

import type { NumericArray } from "../../types.js";
import { ImageView } from "../../widgets/ImageView.js";
import type { Picture } from "../../widgets/pixels.js";
import type { Range } from "../../widgets/scale.js";
import { cssColour } from "../model/palette.js";
import type { Props } from "../model/props.js";
import { useWidgetPv, type WidgetData } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "../widgets/Box.js";
import { rangeOf } from "../widgets/bar_scale.js";
import { coloursOf } from "./colours.js";

type Order = Picture["order"];

/** By the numbers of area detector's ColorMode. */
const NUMBERED: Readonly<Partial<Record<string, Order>>> = { 2: "rgb1", 3: "rgb2", 4: "rgb3" };

/** The order of colours in a plain array, as the display says it. */
function orderOf(props: Props): Order {
  const written = props.text("color_mode").trim();
  const named = /rgb[123]/i.exec(written)?.[0].toLowerCase();
  return (named as Order | undefined) ?? NUMBERED[written] ?? "mono";
}

/** The same bits as integers without a sign. */
function unsigned(elements: NumericArray): NumericArray {
  const { buffer, byteOffset, length } = elements;
  if (elements instanceof Int8Array) return new Uint8Array(buffer, byteOffset, length);
  if (elements instanceof Int16Array) return new Uint16Array(buffer, byteOffset, length);
  if (elements instanceof Int32Array) return new Uint32Array(buffer, byteOffset, length);
  return elements;
}

/** The size and order of a plain array, which an NTNDArray has itself. */
interface Shape {
  readonly width: number;
  /** Infinite for an NTNDArray. */
  readonly height: number;
  readonly order: Order;
}

function shaped(picture: Picture, { height: rows, order, width }: Shape): Picture {
  const { elements } = picture;
  if (order !== "mono" && picture.order === "mono" && rows < Infinity) {
    const height = Math.min(rows, Math.floor(elements.length / (3 * width)));
    // Three elements a pixel; an array with fewer has no colours.
    if (height > 0) {
      return { elements: elements.subarray(0, 3 * width * height), height, order, width };
    }
  }
  if (picture.height <= rows) return picture;
  return { ...picture, elements: elements.subarray(0, rows * picture.width), height: rows };
}

/** The logarithms of levels of 16 bits. */
let logarithms: Float32Array | undefined;

/** The elements' logarithms; those that have none become the lowest one. */
function logarithmic(elements: NumericArray): NumericArray {
  let of: (element: number) => number = Math.log10;
  if (elements instanceof Uint8Array || elements instanceof Uint16Array) {
    logarithms ??= Float32Array.from({ length: 65_536 }, (_, level) => Math.log10(level));
    const table = logarithms;
    of = (level) => table[level] as number;
  }
  const result = new Float32Array(elements.length);
  let lowest = Infinity;
  for (let at = 0; at < result.length; at += 1) {
    const logarithm = of(Number(elements[at]));
    result[at] = logarithm;
    if (logarithm > -Infinity && logarithm < lowest) lowest = logarithm;
  }
  if (lowest === Infinity) return result.fill(0);
  for (let at = 0; at < result.length; at += 1) {
    if (!((result[at] as number) >= lowest)) result[at] = lowest;
  }
  return result;
}

/** The range of logarithms. Without a lowest one it begins at 1, or a thousandth of the highest. */
function logarithmicRange([low, high]: Range): Range | undefined {
  if (high <= 0) return undefined;
  return [Math.log10(low > 0 ? low : Math.min(1, high / 1000)), Math.log10(high)];
}

const fromLogarithm = (element: number): number => 10 ** element;

/** The values that are darkest and brightest; `undefined`: those of each image. */
function givenRangeOf(props: Props, display: WidgetData["display"] | undefined): Range | undefined {
  const { max = null, min = null } = display?.displayRange ?? {};
  const isOfPv = props.flag("limits_from_pv") && min !== null && max !== null && min < max;
  return !isOfPv && props.flag("autoscale") ? undefined : rangeOf(props, display);
}

export function Image({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition, pv } = useWidgetPv(name);
  const width = Math.max(1, props.integer("data_width"));
  // A plain array may be longer than its image; an NTNDArray has dimensions.
  const height = pv?.value?.array == null ? Infinity : Math.max(1, props.integer("data_height"));
  const order = orderOf(props);
  const isUnsigned = props.flag("unsigned");
  const isLog = props.flag("log_scale");
  const prepare = useMemo(
    () =>
      (read: Picture): Picture => {
        const picture = shaped(read, { width, height, order });
        const elements = isUnsigned ? unsigned(picture.elements) : picture.elements;
        return { ...picture, elements: isLog ? logarithmic(elements) : elements };
      },
    [width, height, order, isUnsigned, isLog],
  );
  const colours = useMemo(() => coloursOf(props.node), [props.node]);
  const range = givenRangeOf(props, pv?.display);
  const scaled = isLog && range !== undefined ? logarithmicRange(range) : range;
  const withBar = props.sub("color_bar").flag("visible", true);
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={problem}
      className={`pvwire-display-hosted ${withBar ? "" : "pvwire-display-barless"}`}
      style={{ backgroundColor: cssColour(props.colour("background_color")) }}
    >
      {name !== undefined && (
        <ImageView
          name={name}
          width={width}
          colourMap={colours}
          prepare={prepare}
          {...(scaled === undefined ? {} : { range: scaled })}
          {...(isLog ? { toValue: fromLogarithm } : {})}
        />
      )}
    </Box>
  );
}
