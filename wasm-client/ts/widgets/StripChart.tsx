/** The last minutes of a number, in steps. The curve has gaps where the value was unknown. */

import { useEffect, useRef, useState, type ReactNode } from "react";

import { useClient, usePv } from "../react/index.js";
import type { PvDisplay, PvValue } from "../types.js";
import { t } from "../texts.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { Frame, kindOf, Nothing } from "./Frame.js";
import type { ByArrival } from "./history.js";
import { perPv } from "./per_pv.js";
import { placePlot } from "./place_plot.js";
import type { StripView } from "./plots.js";

const SELECTION = `{
  value { string(units: true) number array structure text }
  display { description }
  ${CONDITION_FIELDS}
}`;

interface ChartData extends ConditionData {
  readonly value: Pick<PvValue, "string" | "number" | "array" | "structure" | "text"> | null;
  readonly display: Pick<PvDisplay, "description"> | null;
}

/** Limits of the time axis. Its length is a number that an application may compute. */
const WINDOW_SECONDS = { least: 0.1, most: 30 * 86_400, otherwise: 60 } as const;

/** The properties of `StripChart`. */
export interface StripChartProps {
  /** The PV: a number. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** Length of the time axis, in seconds: 0.1 to 30 days. @default 60 */
  readonly windowSeconds?: number;
  /** Whether the time axis is in UTC. @default the user's time zone */
  readonly isUtc?: boolean;
  /** In pixels. @default 180 */
  readonly height?: number;
  /** Ends of the vertical axis, finite numbers. @default the range of the data */
  readonly yRange?: readonly [number, number];
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/**
 * A number over the IOC's time. Each value holds until the next one, the last one until now while
 * the PV is connected and its server responds; the first one has been there since its time stamp.
 * Without time stamps, or with one that doesn't change, values are placed by their arrival, which
 * the chart says. Needs `uplot`.
 */
export const StripChart = perPv(function StripChart(props: StripChartProps): ReactNode {
  const { height = 180, isUtc, label = props.name, name, staleAfterMs } = props;
  const seconds = lengthOf(props.windowSeconds);
  const pv = usePv<ChartData>(name, SELECTION);
  const condition = useCondition(pv, staleAfterMs, name);
  const host = useRef<HTMLDivElement>(null);
  const client = useClient();
  const [low, high] = props.yRange ?? [undefined, undefined];
  const [problem, setProblem] = useState<string>();
  const [byArrival, setByArrival] = useState<ByArrival>();

  const view = useRef<StripView>({ seconds, yRange: undefined, isUtc });

  useEffect(() => {
    view.current = { seconds, yRange: low === undefined ? undefined : [low, high], isUtc };
  }, [seconds, low, high, isUtc]);

  // The history isn't in the page's state: only another PV may begin a new one.
  useEffect(
    () =>
      placePlot(
        async () => {
          const { createStrip } = await import("./plots.js");
          return await createStrip(host.current, {
            client,
            name,
            view: () => view.current,
            onByArrival: setByArrival,
          });
        },
        () => undefined,
        setProblem,
      ),
    [client, name],
  );

  const value = pv?.value ?? null;
  const noCurve =
    value !== null &&
    value.number === null &&
    t`A strip chart shows numbers; this is ${kindOf(value)}`;
  return (
    <Frame
      kind="strip"
      name={name}
      label={label}
      condition={condition}
      summary={pv?.value?.string ?? "–"}
      description={pv?.display?.description}
    >
      <Nothing why={problem ?? noCurve} />
      <div
        ref={host}
        className="pvwire-plot"
        role="img"
        aria-label={t`${label}: curve of the last ${String(seconds)} s`}
        style={{ height: `${String(height)}px` }}
      />
      {byArrival !== undefined && noCurve === false && (
        <p className="pvwire-note" data-part="by-arrival">
          {byArrival === "no time stamps"
            ? t`By time of arrival: no time stamps`
            : t`By time of arrival: time stamps that don't change`}
        </p>
      )}
    </Frame>
  );
});

function lengthOf(seconds: number = WINDOW_SECONDS.otherwise): number {
  if (Number.isNaN(seconds)) return WINDOW_SECONDS.otherwise;
  return Math.min(WINDOW_SECONDS.most, Math.max(WINDOW_SECONDS.least, seconds));
}
