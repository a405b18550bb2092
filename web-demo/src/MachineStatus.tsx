/** The machine at a glance: its ring with the beam in it, trends, alarms, and all readbacks and set points. */

import type { ReactNode } from "react";
import { Readback, SetPoint, StripChart } from "pvwire/widgets";

import { AlarmList } from "./AlarmList";
import { MACHINE, SET_POINTS } from "./machine";
import { Synoptic } from "./Synoptic";
import { useWide } from "./wide";

const TREND_SECONDS = 120;

export function MachineStatus({ prefix }: { readonly prefix: string }): ReactNode {
  const isWide = useWide();
  return (
    <>
      <div className="overview">
        <Synoptic prefix={prefix} />
        <section className="panel trends" aria-label="Trends">
          <h2>Trends, 2 minutes</h2>
          <StripChart
            name={`${prefix}:RING:CURRENT`}
            label="Stored beam current"
            windowSeconds={TREND_SECONDS}
            height={isWide ? 240 : 106}
          />
          <StripChart
            name={`${prefix}:MAG:DIPOLE:TEMP`}
            label="Dipole 7 temperature"
            windowSeconds={TREND_SECONDS}
            height={isWide ? 200 : 82}
          />
        </section>
        <AlarmList prefix={prefix} />
      </div>
      <div className="machine">
        {MACHINE.map(({ readbacks, title }) => (
          <section className="panel" key={title} aria-label={title}>
            <h2>{title}</h2>
            {readbacks.map(({ pv, ...spec }) => (
              <Readback key={pv} name={`${prefix}:${pv}`} {...spec} />
            ))}
          </section>
        ))}
        <SetPoints prefix={prefix} />
      </div>
    </>
  );
}

/** The set points in groups: panels of the grid. */
function SetPoints({ prefix }: { readonly prefix: string }): ReactNode {
  return SET_POINTS.map(({ setPoints, title }) => (
    <section className="panel" key={title} aria-label={title}>
      <h2>{title}</h2>
      {setPoints.map(({ pv, ...spec }) => (
        <SetPoint key={pv} name={`${prefix}:${pv}`} {...spec} />
      ))}
    </section>
  ));
}
