/** How does one PV read: its value, whether it is to be trusted, and from when it is? */

import type { ReactNode } from "react";
import { usePv } from "pvwire/react";
import type { PvConnection, PvDisplay, PvStatus, PvTime, PvValue } from "pvwire";

import { formatClock, formatIsoNanoseconds, formatSmall, formatTimeStamp } from "./format";
import { Gauge } from "./Gauge";
import type { ReadbackSpec } from "./machine";
import { StateIcon } from "./StateIcon";

const SELECTION = `{
  value { string number }
  time { seconds nanoseconds }
  status { severity alarmStatus message mutable }
  display {
    type description units precision
    displayRange { min max } warningRange { min max } alarmRange { min max }
  }
  connection { state connected since reason }
  skipped
}`;

/** What SELECTION selects. */
export interface ReadbackData {
  readonly value: Pick<PvValue, "string" | "number"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly status: Pick<PvStatus, "severity" | "alarmStatus" | "message" | "mutable">;
  readonly display: Pick<
    PvDisplay,
    "type" | "description" | "units" | "precision" | "displayRange" | "warningRange" | "alarmRange"
  > | null;
  readonly connection: Pick<PvConnection, "state" | "connected" | "since" | "reason">;
  readonly skipped: number;
}

export interface ReadbackProps {
  readonly name: string;
  readonly spec: ReadbackSpec;
}

export function Readback({ name, spec }: ReadbackProps): ReactNode {
  const pv = usePv<ReadbackData>(name, SELECTION);
  const state = pv?.connection.state ?? "connecting";
  // An alarm is a statement about the present: without a connection there is none to make.
  const severity =
    pv?.connection.connected === true ? (pv.status.severity ?? undefined) : undefined;
  return (
    <div
      className="readback"
      role="group"
      aria-label={spec.label}
      data-pv={name}
      data-state={state}
      data-severity={severity}
    >
      <p className="readback-label" title={pv?.display?.description}>
        {spec.label}
      </p>
      <div className="readback-value">
        <StateIcon state={state} severity={severity} />
        <span className="readback-text" data-part="value">
          {valueText(pv, spec)}
          {pv?.value != null && pv.display !== null && pv.display.units !== "" && (
            <span className="unit"> {pv.display.units}</span>
          )}
        </span>
        {pv?.display?.displayRange != null && severity !== undefined && (
          <Gauge display={pv.display} number={pv.value?.number ?? null} />
        )}
      </div>
      <p className="readback-name">
        <span title={name}>{name}</span>
        {pv?.connection.connected === true && <Access mutable={pv.status.mutable} />}
      </p>
      <p
        className="readback-condition"
        title={pv?.time == null ? undefined : `Value of ${formatIsoNanoseconds(pv.time)}`}
      >
        <span data-part="condition">{conditionText(pv)}</span>
        {pv?.time != null && severity !== undefined && (
          <time dateTime={formatIsoNanoseconds(pv.time)} title={formatIsoNanoseconds(pv.time)}>
            {formatTimeStamp(pv.time)}
          </time>
        )}
      </p>
    </div>
  );
}

/** What the IOC allows to be done with the PV. */
function Access({ mutable }: { readonly mutable: boolean }) {
  return (
    <span
      className="access"
      data-access={mutable ? "write" : "read-only"}
      title={mutable ? "The IOC allows reading and writing" : "The IOC allows reading only"}
    >
      {mutable ? "rw" : "ro"}
      <span className="visually-hidden">{mutable ? " (read and write)" : " (read only)"}</span>
    </span>
  );
}

function valueText(pv: ReadbackData | undefined, spec: ReadbackSpec): string {
  if (pv?.value == null) {
    return "–";
  }
  const { number, string } = pv.value;
  if (spec.notation === "exponent" && number !== null) {
    return formatSmall(number, pv.display?.precision ?? 0, string);
  }
  return string;
}

/** The alarm, or why there is none to speak of. Never colour alone. */
function conditionText(pv: ReadbackData | undefined): string {
  if (pv === undefined) {
    return "Connecting…";
  }
  const { connection, status, value } = pv;
  const since = connection.since === null ? "" : ` ${formatClock(Date.parse(connection.since))}`;
  const lastValue = value === null ? " since" : " · old since";
  switch (connection.state) {
    case "connecting":
      return "Connecting…";
    case "notFound":
      return "Not found · still searching";
    case "disconnected":
      return `Disconnected${lastValue}${since}`;
    case "relayLost":
      return `Relay lost${lastValue}${since}`;
    case "refused":
      return `Refused: ${connection.reason ?? "no reason given"}`;
    case "connected":
      if (status.severity === null) {
        return "Waiting for the first value";
      }
      if (status.severity === "NO_ALARM") {
        return "No alarm";
      }
      // Severity and the condition behind it; a message only where it says more.
      return [...new Set([status.severity, status.alarmStatus, status.message])]
        .filter(Boolean)
        .join(" ");
  }
}
