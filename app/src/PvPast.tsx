/** The widget that fits a PV's type: a chart of a number, a curve, an image, a table. */

import { lazy, Suspense, useEffect, useState, type ReactNode } from "react";
import { t } from "pvwire";
import { usePvHistory } from "pvwire/react";
import { StripChart, TableView, WaveformPlot } from "pvwire/widgets";

import { kindOf, textOf, type Kind } from "./kind";
import { Lengths, showTime, timeOf } from "./page_time";
import type { Shown } from "./PvPage";
import { blurOnEnter, setTo, type Route } from "./route";

/** Most visits don't need these. */
const ImageTools = lazy(() => import("./ImageTools"));
const PastPlot = lazy(async () => ({ default: (await import("./PlotsPage")).PastPlot }));

interface PvPastProps {
  readonly name: string;
  readonly pv: Shown | undefined;
  readonly route: Route;
}

/** Height in pixels: a part of the window's, and a larger one where other panels are beside the picture. */
function useHeight(): number {
  const read = (): number => {
    const share = window.matchMedia("(width >= 120rem)").matches ? 0.6 : 0.42;
    return Math.round(Math.min(1300, Math.max(220, window.innerHeight * share)));
  };
  const [height, setHeight] = useState(read);
  useEffect(() => {
    const resize = (): void => {
      setHeight(read());
    };
    window.addEventListener("resize", resize);
    return () => {
      window.removeEventListener("resize", resize);
    };
  });
  return height;
}

export function PvPast(props: PvPastProps): ReactNode {
  const { pv } = props;
  const kind = kindOf(pv?.display ?? null, textOf(pv?.value));
  if (kind !== undefined) return <Picture {...props} kind={kind} />;
  return pv?.display === null && pv.connection.state === "notFound" ? <Kept {...props} /> : null;
}

/** The chart of a PV whose IOC is gone, if the relay has kept numbers of it. */
function Kept(props: PvPastProps) {
  const [history] = usePvHistory([props.name], { points: 4 });
  const hasNumbers = history?.numbers.some((number) => !Number.isNaN(number)) === true;
  return hasNumbers ? <Picture {...props} kind="number" /> : null;
}

function Picture({ kind, name, pv, route }: PvPastProps & { readonly kind: Kind }) {
  const height = useHeight();
  return (
    <section className="panel pv-past" aria-label={t`Picture`} data-kind={kind}>
      {kind === "image" && (
        <Suspense fallback={null}>
          <ImageTools name={name} route={route} />
        </Suspense>
      )}
      {kind === "table" && <TableView name={name} />}
      {kind === "waveform" && (
        <ArrayPicture
          name={name}
          height={height}
          route={route}
          elements={pv?.display?.elementCount ?? 0}
        />
      )}
      {kind === "number" && <NumberPlot name={name} height={height} route={route} />}
    </section>
  );
}

/** An array as a curve; or as an image, which needs its columns: a server of Channel Access doesn't say them. */
function ArrayPicture(props: NumberPlotProps & { readonly elements: number }) {
  const { elements, height, name, route } = props;
  const columns = Math.floor(Number(route.settings.columns));
  const isImage = columns > 0;
  return (
    <>
      <div className="choices">
        <button
          type="button"
          aria-pressed={isImage}
          onClick={() => {
            const square = Math.ceil(Math.sqrt(elements));
            const columns = isImage ? "" : String(square > 0 ? square : 640);
            setTo(route, { columns, region: "", at: "" });
          }}
        >
          {t`As an image`}
        </button>
        {isImage && (
          <label className="pair">
            {t`Columns`}
            <input
              key={columns}
              type="number"
              min={1}
              defaultValue={columns}
              onBlur={({ currentTarget: { valueAsNumber } }) => {
                if (valueAsNumber >= 1) setTo(route, { columns: String(valueAsNumber) });
              }}
              onKeyDown={blurOnEnter}
            />
          </label>
        )}
      </div>
      {isImage ? (
        <Suspense fallback={null}>
          <ImageTools name={name} route={route} width={columns} />
        </Suspense>
      ) : (
        <WaveformPlot name={name} height={height} />
      )}
    </>
  );
}

interface NumberPlotProps {
  readonly name: string;
  readonly route: Route;
  readonly height: number;
}

function NumberPlot(props: NumberPlotProps) {
  const { height, name, route } = props;
  const range = timeOf(route);
  if (range.kind === "past") {
    return (
      <Suspense fallback={<div style={{ height: `${String(height)}px` }} />}>
        <PastPlot {...props} />
      </Suspense>
    );
  }
  const { seconds } = range;
  return (
    <>
      <div className="choices">
        <Lengths
          label={t`Length of the time axis`}
          chosen={seconds}
          choose={(length) => {
            showTime({ kind: "live", seconds: length });
          }}
        />
        <button
          type="button"
          title={t`The time before, with zoom and cursor`}
          onClick={() => {
            const toMs = Date.now();
            showTime({ kind: "past", fromMs: toMs - 1000 * seconds, toMs });
          }}
        >
          {t`The past`}
        </button>
      </div>
      <StripChart
        name={name}
        windowSeconds={seconds}
        height={height}
        isUtc={route.settings.utc === "1"}
      />
    </>
  );
}
