/** How is one PV set: what it has, what was typed, and what became of it? */

import { useId, type ReactNode } from "react";
import { usePv } from "pvwire/react";
import type { PvConnection, PvDisplay, PvStatus, PvTime, PvValue } from "pvwire";

import { ChoiceControl } from "./ChoiceControl";
import { useEntry, type Entry, type Outcome } from "./entry";
import { formatClock, formatIsoNanoseconds } from "./format";
import { limitsOf, NumberControl } from "./NumberControl";
import type { SetPointSpec } from "./set_points";
import { SliderControl } from "./SliderControl";
import { StateIcon } from "./StateIcon";
import { TextControl } from "./TextControl";

const SELECTION = `{
  value { string number }
  time { seconds nanoseconds }
  status { severity mutable writable }
  display { description units precision choices controlRange { min max } }
  connection { state connected }
}`;

/** What SELECTION selects. */
export interface SetPointData {
  readonly value: Pick<PvValue, "string" | "number"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly status: Pick<PvStatus, "severity" | "mutable" | "writable">;
  readonly display: Pick<
    PvDisplay,
    "description" | "units" | "precision" | "choices" | "controlRange"
  > | null;
  readonly connection: Pick<PvConnection, "state" | "connected">;
}

/** What every control is given. */
export interface ControlProps {
  readonly pv: SetPointData | undefined;
  readonly entry: Entry;
  /** Whether it can be written now. */
  readonly enabled: boolean;
  /** Ids of the elements that name and describe it. */
  readonly labelledBy: string;
  readonly describedBy: string;
}

const CONTROLS = {
  number: NumberControl,
  slider: SliderControl,
  choice: ChoiceControl,
  text: TextControl,
} as const;

export interface SetPointProps {
  readonly name: string;
  readonly spec: SetPointSpec;
}

export function SetPoint({ name, spec }: SetPointProps): ReactNode {
  const pv = usePv<SetPointData>(name, SELECTION);
  const entry = useEntry(name, pv?.time == null ? undefined : formatIsoNanoseconds(pv.time));
  const id = useId();
  const problem = whyNotWritable(pv);
  // An alarm is a statement about the present value: without a connection there is none to make.
  const severity =
    pv?.connection.connected === true ? (pv.status.severity ?? undefined) : undefined;
  const isUnsent = entry.phase === "typed" && entry.text !== pv?.value?.string;
  const phase = isUnsent ? "unsent" : entry.phase === "sending" ? "sending" : "live";
  const Control = CONTROLS[spec.control];
  return (
    <div
      className="set-point"
      role="group"
      aria-labelledby={`${id}label`}
      aria-busy={entry.phase === "sending"}
      data-set-point={name}
      data-phase={phase}
      data-writable={problem === undefined}
      data-severity={severity}
    >
      <p className="set-point-label">
        <span id={`${id}label`} title={pv?.display?.description}>
          {spec.label}
        </span>
        <span className="set-point-name" title={name}>
          {name}
        </span>
      </p>
      <div className="set-point-control" title={problem}>
        <div className="set-point-frame">
          <StateIcon state={pv?.connection.state ?? "connecting"} severity={severity} />
          <Control
            pv={pv}
            entry={entry}
            enabled={problem === undefined}
            labelledBy={`${id}label`}
            describedBy={`${id}hint ${id}outcome`}
          />
        </div>
      </div>
      <div className="set-point-note">
        <span id={`${id}hint`} className="set-point-hint" data-part="hint">
          {problem}
          {isUnsent && <Unsent pv={problem === undefined ? pv : undefined} />}
          {problem === undefined && !isUnsent && limitsOf(pv)}
        </span>
        <span
          id={`${id}outcome`}
          className="set-point-outcome"
          role="status"
          data-part="outcome"
          data-outcome={entry.phase === "sending" ? "sending" : entry.outcome?.kind}
        >
          {entry.phase === "sending" ? "Sending…" : outcomeText(entry.outcome)}
        </span>
      </div>
    </div>
  );
}

/** Who is in the way, if anybody. */
function whyNotWritable(pv: SetPointData | undefined): string | undefined {
  if (pv === undefined) {
    return "Connecting…";
  }
  switch (pv.connection.state) {
    case "connecting":
      return "Connecting…";
    case "notFound":
      return "Not found: nothing can be sent";
    case "disconnected":
      return "Disconnected: nothing can be sent";
    case "relayLost":
      return "Relay lost: nothing can be sent";
    case "refused":
      return "The relay doesn't take the name";
    case "connected":
      if (!pv.status.mutable) return "The IOC gives no write access";
      return pv.status.writable ? undefined : "This relay takes no puts to it";
  }
}

/** Beside a text that the PV doesn't have: what it has, if that is known. */
function Unsent({ pv }: { readonly pv: SetPointData | undefined }) {
  const severity = pv?.status.severity ?? "NO_ALARM";
  return (
    <>
      {pv === undefined && " · "}
      <strong>Not sent</strong>
      {pv?.value != null && ` · the PV has ${pv.value.string} ${pv.display?.units ?? ""}`}
      {severity !== "NO_ALARM" && ` (${severity})`}
    </>
  );
}

function outcomeText(outcome: Outcome | undefined): string {
  switch (outcome?.kind) {
    case undefined:
      return "";
    case "written":
      return `Written ${formatClock(outcome.atMs)}`;
    case "refused":
      return `Refused: ${outcome.message}`;
    case "unknown":
      return `Perhaps written: ${outcome.message}`;
  }
}
