/** How does an array look as a curve? All of its peaks are drawn, however long it is. */

import { useEffect, useRef, type ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvDisplay, PvValue } from "../types.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { decimate } from "./decimate.js";
import { formatCount } from "./format.js";
import { Frame } from "./Frame.js";
import { createPlot, type Plot } from "./plot.js";

const SELECTION = `{ value { array } display { description units } ${CONDITION_FIELDS} }`;

interface WaveformData extends ConditionData {
  readonly value: Pick<PvValue, "array"> | null;
  readonly display: Pick<PvDisplay, "description" | "units"> | null;
}

export interface WaveformPlotProps {
  /** The PV: an array of numbers. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** In pixels. @default 180 */
  readonly height?: number;
  /** Ends of the vertical axis. @default what there is to draw */
  readonly yRange?: readonly [number, number];
  /** Most updates a second. @default each, at most one per frame */
  readonly rateHz?: number;
  readonly staleAfterMs?: number;
}

/** An array of numbers over its index. Needs `uplot`. */
export function WaveformPlot(props: WaveformPlotProps): ReactNode {
  const { height = 180, label = props.name, name, rateHz, staleAfterMs, yRange } = props;
  const pv = usePv<WaveformData>(name, SELECTION, { rateHz });
  const condition = useCondition(pv, staleAfterMs);
  const array = pv?.value?.array ?? null;
  const isNumeric = array !== null && typeof array[0] !== "string";
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(undefined);
  const shown = useRef<ArrayLike<number | bigint>>([]);
  const [low, high] = yRange ?? [undefined, undefined];

  useEffect(() => {
    let isEnded = false;
    const range = low === undefined ? undefined : ([low, high] as const);
    if (host.current === null) return;
    void createPlot(host.current, { height, isTime: false, yRange: range }).then((made) => {
      if (isEnded) {
        made.end();
        return;
      }
      plot.current = made;
      made.draw(decimate(shown.current, made.columns));
    });
    return () => {
      isEnded = true;
      plot.current?.end();
      plot.current = undefined;
    };
  }, [height, low, high]);

  useEffect(() => {
    shown.current = isNumeric ? (array as ArrayLike<number | bigint>) : [];
    plot.current?.draw(decimate(shown.current, plot.current.columns));
  }, [array, isNumeric]);

  const summary = array === null ? "–" : `${formatCount(array.length)} elements`;
  return (
    <Frame
      kind="waveform"
      name={name}
      label={label}
      condition={condition}
      summary={`${summary}${pv?.display?.units ? ` · ${pv.display.units}` : ""}`}
      description={pv?.display?.description}
    >
      <div
        ref={host}
        className="pvwire-plot"
        role="img"
        aria-label={`${label}: curve of ${summary}`}
        style={{ height }}
      />
    </Frame>
  );
}
