/** The machine's readbacks that are in alarm or without a connection, the worst first. */

import type { ReactNode } from "react";
import type { PvConnectionState, Severity } from "pvwire";
import { usePv, usePvSelector } from "pvwire/react";
import { StateIcon, useCondition, type ConditionData } from "pvwire/widgets";

import { MACHINE, type ReadbackSpec } from "./machine";

const READBACKS: readonly ReadbackSpec[] = MACHINE.flatMap(({ readbacks }) => readbacks);

export function AlarmList({ prefix }: { readonly prefix: string }): ReactNode {
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
