/** An array as a curve. All of its peaks are drawn, whatever its length. */

import { useEffect, useRef, useState, type ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvDisplay, PvValue } from "../types.js";
import { t } from "../texts.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { formatCount } from "./format.js";
import { Frame, kindOf, Nothing } from "./Frame.js";
import { perPv } from "./per_pv.js";
import { placePlot } from "./place_plot.js";
import type { Waveform } from "./plots.js";

const SELECTION = `{
  value { array structure text }
  display { description units }
  ${CONDITION_FIELDS}
}`;

interface WaveformData extends ConditionData {
  readonly value: Pick<PvValue, "array" | "structure" | "text"> | null;
  readonly display: Pick<PvDisplay, "description" | "units"> | null;
}

/** The properties of `WaveformPlot`. */
export interface WaveformPlotProps {
  /** The PV: an array of numbers. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** In pixels. @default 180 */
  readonly height?: number;
  /** Ends of the vertical axis. @default the range of the data */
  readonly yRange?: readonly [number, number];
  /** Maximum number of updates per second. @default all, at most one per animation frame */
  readonly rateHz?: number;
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/** An array of numbers over its index. Needs `uplot`. */
export const WaveformPlot = perPv(function WaveformPlot(props: WaveformPlotProps): ReactNode {
  const { height = 180, label = props.name, name, rateHz, staleAfterMs, yRange } = props;
  const pv = usePv<WaveformData>(name, SELECTION, { rateHz });
  const condition = useCondition(pv, staleAfterMs, name, { rateHz });
  const array = pv?.value?.array ?? null;
  const isNumeric = array !== null && typeof array[0] !== "string";
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<Waveform>(undefined);
  const shown = useRef<Parameters<Waveform["show"]>>([[], undefined]);
  const [low, high] = yRange ?? [undefined, undefined];

  const [problem, setProblem] = useState<string>();

  useEffect(() => {
    const end = placePlot(
      async () => {
        const { createWaveform } = await import("./plots.js");
        return await createWaveform(host.current);
      },
      (made) => {
        plot.current = made;
        made.show(...shown.current);
      },
      setProblem,
    );
    return () => {
      plot.current = undefined;
      end();
    };
  }, []);

  useEffect(() => {
    const numbers = isNumeric ? (array as ArrayLike<number | bigint>) : [];
    shown.current = [numbers, low === undefined ? undefined : [low, high]];
    plot.current?.show(...shown.current);
  }, [array, isNumeric, low, high]);

  const summary = array === null ? "–" : t`${formatCount(array.length)} elements`;
  const units = array === null ? "" : (pv?.display?.units ?? "");
  const value = pv?.value ?? null;
  const noCurve =
    value !== null &&
    !isNumeric &&
    t`A plot shows arrays of numbers; this is ${array === null ? kindOf(value) : t`an array of texts`}`;
  return (
    <Frame
      kind="waveform"
      name={name}
      label={label}
      condition={condition}
      summary={units === "" ? summary : `${summary} · ${units}`}
      description={pv?.display?.description}
    >
      <Nothing why={problem ?? noCurve} />
      <div
        ref={host}
        className="pvwire-plot"
        role="img"
        aria-label={t`${label}: curve of ${summary}`}
        style={{ height: `${String(height)}px` }}
      />
    </Frame>
  );
});
