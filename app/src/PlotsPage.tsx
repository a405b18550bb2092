/** Up to 20 PVs over time. All that is chosen is in the link. */

import type { ReactNode } from "react";
import { HistoryPlot, TimeControl } from "pvwire/plots";

import { pvsText } from "./counts";
import { ListBox } from "./ListBox";
import { PageTime } from "./PageTime";
import { elsewhere, go, hrefOf, setTo, type Route } from "./route";
import { useNames } from "./TablePage";
import { useTitle } from "./title";

const MAX_TRACES = 20;

export default function PlotsPage({ route }: { readonly route: Route }): ReactNode {
  const names = useNames(route);
  const shown = names.slice(0, MAX_TRACES);
  useTitle(
    names.length === 1 ? `Plot of ${names[0] ?? ""}` : `Plot of ${pvsText(shown.length)}`,
    "NONE",
  );
  return (
    <div className="plots-page">
      <h1>Plots</h1>
      <ListBox key={route.names.join()} route={route} />
      {names.length > MAX_TRACES && (
        <p className="note" role="status">
          The first {MAX_TRACES} of {pvsText(names.length)} are drawn.
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

function Plots({ names, route }: PlotsProps) {
  const { limits, log, stack, utc } = route.settings;
  const isUtc = utc === "1";
  return (
    <section className="panel plots" aria-label="Charts">
      <TimeControl isUtc={isUtc} />
      <HistoryPlot
        names={names}
        isUtc={isUtc}
        options={{ isStacked: stack === "1", isLog: log === "1", hasLimits: limits === "1" }}
        onOptions={({ hasLimits, isLog, isStacked }) => {
          setTo(route, {
            stack: isStacked === true ? "1" : "",
            log: isLog === true ? "1" : "",
            limits: hasLimits === true ? "1" : "",
          });
        }}
        hrefOf={(name) => hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}
        onRemove={(name) => {
          go({ ...route, names: route.names.filter((other) => other !== name) });
        }}
      />
    </section>
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
