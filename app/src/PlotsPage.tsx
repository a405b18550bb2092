/** Up to 20 PVs over time, or against one of them. All that is chosen is in the link. */

import { lazy, Suspense, useMemo, type ReactNode } from "react";
import { t } from "pvwire";
import { HistoryPlot, TimeControl, type PlotOptions } from "pvwire/plots";

import { pvsText } from "./texts";
import { ListBox } from "./ListBox";
import { PageTime } from "./PageTime";
import { elsewhere, go, hrefOf, setTo, type Route } from "./route";
import { useNamesOnce } from "./TablePage";
import { useTitle } from "./title";

const XyPlot = lazy(async () => ({ default: (await import("./xy")).XyPlot }));

const MAX_TRACES = 20;

export default function PlotsPage({ route }: { readonly route: Route }): ReactNode {
  const names = useNamesOnce(route);
  const shown = names.slice(0, MAX_TRACES);
  const { x = "" } = route.settings;
  const others = shown.filter((name) => name !== x);
  const plotted = others.length === 1 ? (others[0] ?? "") : pvsText(others.length);
  useTitle(
    x === "" || x === INDEX ? t`Plot of ${plotted}` : t`Plot of ${plotted} against ${x}`,
    "NONE",
  );
  return (
    <div className="plots-page">
      <h1>{t`Plots`}</h1>
      <ListBox route={route} />
      {names.length > MAX_TRACES && (
        <p className="note" role="status">
          {t`The first ${MAX_TRACES} of ${pvsText(names.length)} are drawn.`}
        </p>
      )}
      {shown.length > 0 && (
        <PageTime route={route}>
          <Plots route={route} names={shown} />
        </PageTime>
      )}
    </div>
  );
}

interface PlotsProps {
  readonly route: Route;
  readonly names: readonly string[];
}

/** The index of an array's element on the horizontal axis: no PV has this name. */
const INDEX = "#";

function Plots({ names, route }: PlotsProps) {
  const { limits, log, stack, utc, x = "" } = route.settings;
  const zoom = useZoom(route);
  const isUtc = utc === "1";
  const props = {
    names,
    isUtc,
    options: { isStacked: stack === "1", isLog: log === "1", hasLimits: limits === "1" },
    onOptions: ({ hasLimits, isLog, isStacked }: PlotOptions) => {
      setTo(route, {
        stack: isStacked === true ? "1" : "",
        log: isLog === true ? "1" : "",
        limits: hasLimits === true ? "1" : "",
      });
    },
    hrefOf: (name: string) => hrefOf(elsewhere(route, { page: "pv", name, names: [] })),
    onRemove: (name: string) => {
      const names = route.names.filter((other) => other !== name);
      go({ ...route, names, settings: { ...route.settings, zoom: "" } });
    },
  };
  return (
    <section className="panel plots" aria-label={t`Charts`}>
      <TimeControl isUtc={isUtc} />
      <HorizontalAxis route={route} names={names} />
      {x === "" ? (
        <HistoryPlot {...props} />
      ) : (
        <Suspense fallback={<p className="note">{t`Loading…`}</p>}>
          <XyPlot
            {...props}
            xName={x}
            zoom={zoom}
            onZoom={(next) => {
              setTo(route, { zoom: next.join(" ") });
            }}
          />
        </Suspense>
      )}
    </section>
  );
}

/** What part of a plot against a PV is shown. */
function useZoom({ settings }: Route): readonly number[] {
  const { zoom = "" } = settings;
  return useMemo(() => zoom.split(" ").filter(Boolean).map(Number), [zoom]);
}

function HorizontalAxis({ names, route }: PlotsProps) {
  const { x = "" } = route.settings;
  // The PV of a link need not be in its list.
  const pvs = x === "" || x === INDEX || names.includes(x) ? names : [...names, x];
  return (
    <label className="pair">
      {t`Horizontal axis`}
      <select
        value={x}
        onChange={({ target }) => {
          setTo(route, { x: target.value, zoom: "" });
        }}
      >
        <option value="">{t`Time`}</option>
        <option value={INDEX}>{t`Index of the element`}</option>
        {pvs.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

interface PastPlotProps {
  readonly name: string;
  readonly route: Route;
  readonly height: number;
}

/** One PV over the time of the link, for the page PV. */
export function PastPlot({ height, name, route }: PastPlotProps): ReactNode {
  const isUtc = route.settings.utc === "1";
  return (
    <PageTime route={route}>
      <TimeControl isUtc={isUtc} />
      <HistoryPlot names={[name]} height={height} isUtc={isUtc} />
    </PageTime>
  );
}
