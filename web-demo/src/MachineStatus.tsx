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
import { useWide } from "./pages";

interface ReadbackSpec {
  /** The PV's name without the prefix. */
  readonly pv: string;
  readonly label: string;
  /** For quantities that span decades: shown as `3.2e-9` where PREC digits would be zeros. */
  readonly notation?: "exponent";
}

interface ReadbackGroup {
  readonly title: string;
  readonly readbacks: readonly ReadbackSpec[];
}

const MACHINE: readonly ReadbackGroup[] = [
  {
    title: "Ring and operation",
    readbacks: [
      { pv: "RING:CURRENT", label: "Stored beam current" },
      { pv: "RING:LIFETIME", label: "Beam lifetime" },
      { pv: "RING:MODE", label: "Operating mode" },
      { pv: "RING:INJECTIONS", label: "Injections" },
      { pv: "RING:TUNE", label: "Horizontal tune" },
      { pv: "OP:MESSAGE", label: "Message" },
    ],
  },
  {
    title: "Radio frequency, magnets, insertion device",
    readbacks: [
      { pv: "RF:VOLTAGE:SET", label: "RF voltage set point" },
      { pv: "RF:VOLTAGE", label: "RF voltage" },
      { pv: "MAG:DIPOLE:CURRENT", label: "Dipole 7 current" },
      { pv: "MAG:DIPOLE:TEMP", label: "Dipole 7 temperature" },
      { pv: "MAG:DIPOLE:FLOW", label: "Dipole 7 water flow" },
      { pv: "ID:GAP", label: "Undulator gap" },
    ],
  },
  {
    title: "Vacuum and cryogenics",
    readbacks: [
      { pv: "VAC:PRESSURE", label: "Sector 3 pressure", notation: "exponent" },
      { pv: "VAC:VALVE", label: "Sector 3 gate valve" },
      { pv: "FE:SHUTTER", label: "Front-end shutter" },
      { pv: "CRYO:LEVEL", label: "Helium level" },
      { pv: "CRYO:TEMP", label: "Cavity temperature" },
      { pv: "NOT_THERE", label: "A name no IOC has" },
    ],
  },
];

interface SetPointSpec {
  /** The PV's name without the prefix. */
  readonly pv: string;
  readonly label: string;
  /** A slider writes while it is moved and a choice of few at once; all others wait for Enter. */
  readonly control: "number" | "slider" | "choice" | "text";
}

interface SetPointGroup {
  readonly title: string;
  readonly setPoints: readonly SetPointSpec[];
}

const SET_POINTS: readonly SetPointGroup[] = [
  {
    title: "Set points",
    setPoints: [
      { pv: "RF:VOLTAGE:SET", label: "RF voltage", control: "number" },
      { pv: "MAG:CORR4:SET", label: "Corrector 4 current", control: "slider" },
      { pv: "RING:SHOTS:SET", label: "Shots per injection", control: "number" },
    ],
  },
  {
    title: "Modes and message",
    setPoints: [
      { pv: "FB:ORBIT:SET", label: "Orbit feedback", control: "choice" },
      { pv: "OP:MODE:SET", label: "Requested mode", control: "choice" },
      { pv: "OP:MESSAGE", label: "Message", control: "text" },
    ],
  },
  {
    title: "Refused, and by whom",
    setPoints: [
      { pv: "RF:PHASE:SET", label: "RF phase, locked in its record", control: "number" },
      { pv: "ID:GAP:SET", label: "Undulator gap, without access", control: "number" },
      { pv: "MAG:DIPOLE:LIMIT", label: "Dipole 7 limit, without a rule", control: "number" },
    ],
  },
];

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
