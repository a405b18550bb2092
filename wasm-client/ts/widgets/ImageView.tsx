/** What does a camera see? The newest frame; those that came too fast are left out. */

import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvDisplay, PvValue } from "../types.js";
import { ColourBar } from "./ColourBar.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { Frame } from "./Frame.js";
import { createGlPainter, type Painter } from "./gl.js";
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

  // A canvas that was painted by the graphics card can't be painted otherwise: another one is.
  const [byProcessor, setByProcessor] = useState(false);
  const painter = useRef<Painter>(undefined);
  useEffect(() => {
    if (canvas.current === null) return;
    const onFailed = (): void => {
      setByProcessor(true);
    };
    painter.current =
      (byProcessor ? undefined : createGlPainter(canvas.current, { onFailed })) ??
      createPlainPainter(canvas.current);
    return () => {
      painter.current?.end();
      painter.current = undefined;
    };
  }, [byProcessor]);

  const drawn = useMemo((): readonly [number, number] | undefined => {
    if (picture === undefined) return undefined;
    if (low !== undefined) return [low, high];
    const { elements, order } = picture;
    return elements instanceof Uint8Array && order !== "mono" ? [0, 255] : rangeOf(elements);
  }, [picture, low, high]);

  useEffect(() => {
    if (picture !== undefined && drawn !== undefined) {
      painter.current?.paint(picture, drawn, colourMap);
    }
  }, [picture, colourMap, drawn, byProcessor]);

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
        key={byProcessor ? "processor" : "card"}
        role="img"
        aria-label={`${label}: ${size === undefined ? "no image yet" : `image of ${size} pixels`}`}
        hidden={picture === undefined}
      />
      {picture?.order === "mono" && drawn !== undefined && (
        <ColourBar map={colourMap} range={drawn} />
      )}
    </Frame>
  );
}

function createPlainPainter(canvas: HTMLCanvasElement): Painter | undefined {
  const context = canvas.getContext("2d");
  if (context === null) return undefined;
  let pixels: ImageData | undefined;
  return {
    paint: (picture, range, map) => {
      const { height, width } = picture;
      if (canvas.width !== width || canvas.height !== height) {
        Object.assign(canvas, { width, height });
      }
      if (pixels?.width !== width || pixels.height !== height) {
        pixels = context.createImageData(width, height);
      }
      paint(picture, range, map, pixels.data);
      context.putImageData(pixels, 0, 0);
    },
    end: () => undefined,
  };
}
