/** Gives the plots and tables below it the time of the link. */

import { useMemo, type ReactNode } from "react";
import { TimeRangeProvider } from "pvwire/plots";
import "pvwire/plots.css";

import { showTime, timeOf } from "./page_time";
import type { Route } from "./route";

interface PageTimeProps {
  readonly route: Route;
  readonly children: ReactNode;
}

export function PageTime({ children, route }: PageTimeProps): ReactNode {
  const { from = "", last = "", to = "" } = route.settings;
  const range = useMemo(() => timeOf({ settings: { from, last, to } }), [from, last, to]);
  return (
    <TimeRangeProvider range={range} onChange={showTime}>
      {children}
    </TimeRangeProvider>
  );
}
