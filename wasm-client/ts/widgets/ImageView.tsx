/** The newest image of a camera; images that arrive too fast are skipped. */

import { type ReactNode, type RefObject, useEffect, useMemo, useRef, useState } from "react";

import { endTexts } from "./end_texts.js";
import { givenRange, type Range } from "./scale.js";
import {
  codecOf,
  type ColourMap,
  type Colours,
  gradientOf,
  type Picture,
  pictureOf,
  rangeOf,
} from "./pixels.js";
import { usePv } from "../react/index.js";
import type { PvDisplay, PvStructure, PvValue } from "../types.js";
import { t } from "../texts.js";
import { CONDITION_FIELDS, type ConditionData, useCondition } from "./condition.js";
import { Frame, kindOf, Nothing } from "./Frame.js";
import type { Painter } from "./painter.js";
import { perPv } from "./per_pv.js";

const SELECTION = `{
  value { array structure text }
  display { description }
  ${CONDITION_FIELDS}
}`;

interface ImageData_ extends ConditionData {
  readonly value: Pick<PvValue, "array" | "structure" | "text"> | null;
  readonly display: Pick<PvDisplay, "description"> | null;
}

/** The properties of `ImageView`. */
export interface ImageViewProps {
  /** The PV: an NTNDArray, or with `width` a plain array of numbers. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** Columns of a plain array. */
  readonly width?: number;
  /** For images with one value per pixel. @default "grey" */
  readonly colourMap?: ColourMap;
  /**
   * The values shown darkest and brightest. @default the lowest and highest element; RGB bytes
   * unchanged
   */
  readonly range?: readonly [number, number];
  /** Maximum number of images per second. @default all, at most one per animation frame */
  readonly rateHz?: number;
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/** For widgets around it. */
export interface PreparedImageProps extends Omit<ImageViewProps, "colourMap"> {
  /** Also colours of the widget's own. @default "grey" */
  readonly colourMap?: Colours;
  /** Changes each picture before it is painted. Another function paints it again. @default none */
  readonly prepare?: (picture: Picture) => Picture;
  /** The value that a prepared element stands for, for the colour bar. @default the element */
  readonly toValue?: (element: number) => number;
}

/** An image: mono or RGB, of 8, 16 or more bits. */
export const ImageView = perPv(function ImageView(props: PreparedImageProps): ReactNode {
  const {
    colourMap = "grey",
    label = props.name,
    name,
    prepare,
    range,
    rateHz,
    staleAfterMs,
    toValue = Number,
    width,
  } = props;
  const pv = usePv<ImageData_>(name, SELECTION, { rateHz });
  const condition = useCondition(pv, staleAfterMs, name, { rateHz });
  const value = pv?.value ?? null;
  const codec = codecOf(value?.structure ?? null);
  const decoded = useDecoded(codec === "" ? null : (value?.structure ?? null));
  const picture = useMemo(() => {
    const read =
      codec === ""
        ? value === null
          ? undefined
          : pictureOf(value.structure, value.array, width)
        : decoded?.picture;
    return read && (prepare?.(read) ?? read);
  }, [value, codec, width, decoded, prepare]);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [low, high] = givenRange(range) ?? [undefined, undefined];

  const { byProcessor, painter, problem } = usePainter(canvas);

  const drawn = useMemo((): readonly [number, number] | undefined => {
    if (picture === undefined) return undefined;
    if (low !== undefined) return [low, high];
    const { elements, order } = picture;
    return elements instanceof Uint8Array && order !== "mono" ? [0, 255] : rangeOf(elements);
  }, [picture, low, high]);

  useEffect(() => {
    if (picture !== undefined && drawn !== undefined) painter?.paint(picture, drawn, colourMap);
  }, [picture, painter, colourMap, drawn]);

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
      <Nothing
        why={
          problem ??
          (picture === undefined && value !== null && (decoded?.why ?? noPicture(value, width)))
        }
      />
      <canvas
        ref={canvas}
        key={byProcessor ? "processor" : "card"}
        role="img"
        aria-label={
          size === undefined ? t`${label}: no image yet` : t`${label}: image of ${size} pixels`
        }
        hidden={picture === undefined || painter === undefined}
      />
      {picture?.order === "mono" && drawn !== undefined && (
        <ColourBar map={colourMap} range={[toValue(drawn[0]), toValue(drawn[1])]} />
      )}
    </Frame>
  );
});

/** Paints the canvas, with the processor if the graphics card fails. */
function usePainter(canvas: RefObject<HTMLCanvasElement | null>): {
  byProcessor: boolean;
  painter: Painter | undefined;
  problem: string | undefined;
} {
  // A canvas that was used with WebGL can't be used otherwise: it is replaced by another one.
  const [byProcessor, setByProcessor] = useState(false);
  const [painter, setPainter] = useState<Painter>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    if (canvas.current === null) return;
    const { current } = canvas;
    let isEnded = false;
    let made: Painter | undefined;
    const fail = (): void => {
      setByProcessor(true);
    };
    const place = async (): Promise<void> => {
      const { createPainter } = await import("./painter.js");
      if (isEnded) return;
      made = createPainter(current, byProcessor, fail);
      setPainter(made);
    };
    place().catch((error: unknown) => {
      if (!isEnded) setProblem(t`The image can't be painted; reload the page (${String(error)})`);
    });
    return () => {
      isEnded = true;
      made?.end();
      setPainter(undefined);
    };
  }, [canvas, byProcessor]);
  return { byProcessor, painter, problem };
}

interface Decoded {
  readonly picture?: Picture;
  readonly why?: string;
}

/** The picture of an encoded image; images that arrive during decoding replace each other. */
function useDecoded(structure: PvStructure | null): Decoded | undefined {
  const [decoded, setDecoded] = useState<Decoded>();
  const work = useRef({ isBusy: false, next: structure });
  useEffect(() => {
    const { current } = work;
    current.next = structure;
    if (current.isBusy || structure === null) return;
    current.isBusy = true;
    const decodeAll = async (): Promise<void> => {
      const { decodeImage } = await import("./codec.js");
      while (current.next !== null) {
        const { next } = current;
        current.next = null;
        setDecoded(
          await decodeImage(next).then(
            (picture) => ({ picture }),
            (error: unknown) => ({ why: (error as Error).message }),
          ),
        );
      }
    };
    decodeAll()
      .catch((error: unknown) => {
        setDecoded({ why: String(error) });
      })
      .finally(() => {
        current.isBusy = false;
      });
  }, [structure]);
  return decoded;
}

/** Why an unencoded value is not a picture. */
function noPicture(value: NonNullable<ImageData_["value"]>, width: number | undefined): string {
  if (codecOf(value.structure) !== "") return "";
  if (value.structure === null && value.array === null) {
    return t`An image is an array or an NTNDArray; this is ${kindOf(value)}`;
  }
  const isBare = value.array !== null && width === undefined;
  return isBare ? t`(no image: an array needs its width)` : t`(no image: too few elements)`;
}

export interface ColourBarProps {
  readonly map: Colours;
  readonly range: Range;
}

function ColourBar({ map, range }: ColourBarProps): ReactNode {
  const [low, high] = endTexts(range);
  return (
    <div className="pvwire-colour-bar" role="img" aria-label={t`Colours from ${low} to ${high}`}>
      <span>{high}</span>
      <span className="pvwire-colours" style={{ background: gradientOf(map) }} />
      <span>{low}</span>
    </div>
  );
}
