/** The machine at a glance: its ring with the beam in it, trends, alarms, and all readbacks and set points. */

import type { PvConnectionState, Severity } from "pvwire";
import { usePv, usePvSelector } from "pvwire/react";
import {
  type ConditionData,
  Readback,
  SetPoint,
  StateIcon,
  StripChart,
  useCondition,
} from "pvwire/widgets";
import type { ReactNode } from "react";

import { Synoptic } from "./Synoptic";
import { MACHINE, type ReadbackSpec, SET_POINTS } from "./machine";
import { useWide } from "./pages";

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

const READBACKS: readonly ReadbackSpec[] = MACHINE.flatMap(({ readbacks }) => readbacks);

function AlarmList({ prefix }: { readonly prefix: string }): ReactNode {
  return (
    <section className="panel alarms" aria-label="Alarms">
      <h2>Alarms</h2>
      {/* Focusable, so that it can be scrolled without a mouse. */}
      <div className="alarm-room" role="region" aria-label="List of alarms" tabIndex={0}>
        <ul>
          {READBACKS.map(({ label, pv }) => (
            <Alarm key={pv} name={`${prefix}:${pv}`} label={label} />
          ))}
        </ul>
        <NoAlarms prefix={prefix} />
      </div>
    </section>
  );
}

/** Shown while the list is empty, also before any state is known. */
function NoAlarms({ prefix }: { readonly prefix: string }) {
  const isKnown = usePvSelector(
    READBACKS.map(({ pv }) => `${prefix}:${pv}`),
    "{ connection { state } }",
    (pvs) => pvs.every((pv) => pv !== undefined && pv.connection.state !== "connecting"),
  );
  return (
    <p className="no-alarms">
      {isKnown ? "No alarm. All readbacks are connected." : "Connecting…"}
    </p>
  );
}

/** Without the value: it renders only when the alarm or the connection changes. */
const SELECTION = `{
  status { severity alarmStatus message }
  connection { state connected since lastHeard unresponsive readable reason }
}`;

type AlarmData = Pick<ConditionData, "status" | "connection">;

function Alarm({ label, name }: { readonly label: string; readonly name: string }) {
  const pv = usePv<AlarmData>(name, SELECTION);
  const { isStale, severity, state, text } = useCondition(pv && { ...pv, value: true, time: null });
  if (pv === undefined || severity === "NO_ALARM" || state === "connecting") return null;
  return (
    <li
      className="alarm-row pvwire-state"
      data-severity={severity}
      style={{ order: rankOf(state, severity) }}
    >
      <StateIcon state={state} severity={severity} isStale={isStale} />
      <span className="alarm-label">{label}</span>
      <span className="alarm-text">{text}</span>
    </li>
  );
}

function rankOf(state: PvConnectionState, severity: Severity | undefined): number {
  if (severity === undefined) return state === "notFound" ? 4 : 0;
  return ["MAJOR", "INVALID", "MINOR"].indexOf(severity) + 1;
}
