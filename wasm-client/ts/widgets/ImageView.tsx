/** What does a camera see? The newest frame; those that came too fast are left out. */

import { useEffect, useMemo, useRef, type ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvDisplay, PvValue } from "../types.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { Frame } from "./Frame.js";
import { paint, pictureOf, rangeOf, type ColourMap } from "./pixels.js";

const SELECTION = `{ value { array structure } display { description } ${CONDITION_FIELDS} }`;

interface ImageData_ extends ConditionData {
  readonly value: Pick<PvValue, "array" | "structure"> | null;
  readonly display: Pick<PvDisplay, "description"> | null;
}

export interface ImageViewProps {
  /** The PV: an NTNDArray, or with `width` a plain array of numbers. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** Columns of a plain array. */
  readonly width?: number;
  /** For one colour a pixel. @default "grey" */
  readonly colourMap?: ColourMap;
  /** What is darkest and brightest. @default the lowest and highest element; RGB of bytes as it is */
  readonly range?: readonly [number, number];
  /** Most frames a second. @default each, at most one per animation frame */
  readonly rateHz?: number;
  readonly staleAfterMs?: number;
}

/** An image: mono or RGB, of 8, 16 or more bits. */
export function ImageView(props: ImageViewProps): ReactNode {
  const {
    colourMap = "grey",
    label = props.name,
    name,
    range,
    rateHz,
    staleAfterMs,
    width,
  } = props;
  const pv = usePv<ImageData_>(name, SELECTION, { rateHz });
  const condition = useCondition(pv, staleAfterMs);
  const value = pv?.value ?? null;
  const picture = useMemo(
    () => (value === null ? undefined : pictureOf(value.structure, value.array, width)),
    [value, width],
  );
  const canvas = useRef<HTMLCanvasElement>(null);
  const [low, high] = range ?? [undefined, undefined];

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context == null || picture === undefined) return;
    const { elements, height, order, width: columns } = picture;
    if (context.canvas.width !== columns || context.canvas.height !== height) {
      Object.assign(context.canvas, { width: columns, height });
    }
    const pixels = context.createImageData(columns, height);
    const isBytes = elements instanceof Uint8Array && order !== "mono";
    const given = low === undefined ? undefined : ([low, high] as const);
    paint(picture, given ?? (isBytes ? [0, 255] : rangeOf(elements)), colourMap, pixels.data);
    context.putImageData(pixels, 0, 0);
  }, [picture, colourMap, low, high]);

  const size = picture && `${String(picture.width)} × ${String(picture.height)}`;
  return (
    <Frame
      kind="image"
      name={name}
      label={label}
      condition={condition}
      summary={size ?? "–"}
      description={pv?.display?.description}
    >
      {value !== null && picture === undefined && (
        <p className="pvwire-nothing">{`(no image: ${width === undefined ? "an array needs its width" : "too few elements"})`}</p>
      )}
      <canvas
        ref={canvas}
        role="img"
        aria-label={`${label}: ${size === undefined ? "no image yet" : `image of ${size} pixels`}`}
        hidden={picture === undefined}
      />
    </Frame>
  );
}
