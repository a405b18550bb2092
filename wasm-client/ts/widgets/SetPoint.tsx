/** Sets one PV: shows its current value, the input, and the result of the put. */

import { useId, type ReactNode } from "react";
import { useClient, usePv } from "../react/index.js";
import { t } from "../texts.js";

import { ChoiceControl, choiceText } from "./ChoiceControl.js";
import type { SetPointData } from "./control_props.js";
import { silentText, staleText, useStale, useUnreached } from "./condition.js";
import { useEntry, type Entry, type Outcome } from "./entry.js";
import { formatClock, formatIsoNanoseconds } from "./format.js";
import { NumberControl } from "./NumberControl.js";
import { perPv } from "./per_pv.js";
import { limitsOf, limitsText } from "./range.js";
import { SliderControl } from "./SliderControl.js";
import { StateIcon } from "./StateIcon.js";
import { TextControl } from "./TextControl.js";
import { whyNotWritable } from "./writable.js";

const SELECTION = `{
  value { string number exact }
  time { seconds nanoseconds }
  status { severity mutable writable }
  display { type elementCount description form units precision choices controlRange { min max } }
  connection { state connected lastHeard unresponsive }
}`;

/** Read without listening, which gives what has arrived and may not be shown yet. */
const CHOICES = "{ display { choices } }";

const CONTROLS = {
  number: NumberControl,
  slider: SliderControl,
  choice: ChoiceControl,
  text: TextControl,
} as const;

/** The properties of `SetPoint`. */
export interface SetPointProps {
  /** The PV. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /**
   * A slider writes while it is moved, and buttons for a few choices write at once; all others wait
   * for Enter.
   * @default the control that fits the PV's type
   */
  readonly control?: keyof typeof CONTROLS;
  /** `nan`, `inf` and `-inf` may also be entered, whatever the limits are. @default false */
  readonly allowNonFinite?: boolean;
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/** Sets one PV within its limits, and shows the outcome of each put. */
export const SetPoint = perPv(function SetPoint(props: SetPointProps): ReactNode {
  const { allowNonFinite, control, label = props.name, name, staleAfterMs } = props;
  const client = useClient();
  const pv = usePv<SetPointData>(name, SELECTION);
  const entry = useEntry(name, pv?.time == null ? undefined : formatIsoNanoseconds(pv.time));
  const isSilent = pv?.connection.unresponsive === true;
  const isStale = useStale(pv, staleAfterMs, name) || isSilent;
  const id = useId();
  const unreached = useUnreached(pv);
  const fitting = controlOf(name, pv);
  const problem =
    unreached ??
    whyNotWritable(name, pv) ??
    (fitting === undefined ? t`Only programs write arrays and structures` : undefined);
  // An alarm describes the present value: a disconnected PV has no alarm.
  const isAnswering = pv?.connection.connected === true && !isSilent;
  const severity = isAnswering ? (pv.status.severity ?? undefined) : undefined;
  // A choice isn't a number, not even if its label is one and the PV has no choices any more.
  const kind = control ?? (entry.index === undefined ? (fitting ?? "text") : "choice");
  const isUnsent = entry.phase === "typed" && !isCurrent(entry, pv);
  const phase = isUnsent ? "unsent" : entry.phase === "sending" ? "sending" : "live";
  const rest = problem ?? (isUnsent ? "" : hintOf(pv, kind));
  const hint = [ageOf(pv, isStale), rest].filter(Boolean).join(" · ");
  const Control = CONTROLS[kind];
  return (
    <div
      className="pvwire-set-point"
      role="group"
      aria-labelledby={`${id}label`}
      aria-busy={entry.phase === "sending"}
      data-set-point={name}
      data-phase={phase}
      data-writable={problem === undefined}
      data-state={pv?.connection.state ?? "connecting"}
      data-present={(isAnswering && pv.value !== null) || undefined}
      data-severity={severity}
      data-stale={isStale || undefined}
    >
      <p className="pvwire-set-point-label">
        <span id={`${id}label`} title={pv?.display?.description}>
          {label}
        </span>
        <span className="pvwire-set-point-name" title={name}>
          {name}
        </span>
      </p>
      <div className="pvwire-set-point-control" title={problem}>
        <div className="pvwire-set-point-frame">
          <StateIcon
            state={pv?.connection.state ?? "connecting"}
            severity={severity}
            isStale={isStale}
          />
          <Control
            pv={pv}
            entry={entry}
            newestChoices={() =>
              client.pv<SetPointData>(name, CHOICES).getSnapshot()?.display?.choices ?? []
            }
            enabled={problem === undefined}
            labelledBy={`${id}label`}
            describedBy={`${id}hint ${id}outcome`}
            allowNonFinite={allowNonFinite}
          />
        </div>
      </div>
      <div className="pvwire-set-point-note">
        <span id={`${id}hint`} className="pvwire-set-point-hint" data-part="hint">
          {hint}
          {isUnsent && hint !== "" && " · "}
          {isUnsent && <Unsent pv={problem === undefined ? pv : undefined} />}
        </span>
        <span
          id={`${id}outcome`}
          className="pvwire-set-point-outcome"
          role="status"
          data-part="outcome"
          data-outcome={entry.phase === "sending" ? "sending" : entry.outcome?.kind}
        >
          {entry.phase === "sending" ? t`Sending…` : outcomeText(entry.outcome)}
        </span>
      </div>
    </div>
  );
});

/** One of an enum's choices. */
export function EnumChoice(props: Omit<SetPointProps, "control">): ReactNode {
  return <SetPoint {...props} control="choice" />;
}

/** The control that fits the PV's type. `undefined`: what is typed would become its only element. */
function controlOf(name: string, pv: SetPointData | undefined): keyof typeof CONTROLS | undefined {
  const { choices, elementCount = 1, form, type = "" } = pv?.display ?? {};
  // An array of characters is a text where `value.string` shows it as one.
  if (type.endsWith("Int8") && (form === "String" || name.endsWith("$"))) return "text";
  if (elementCount !== 1) return undefined;
  if (type === "String") return "text";
  if (pv?.value?.number === null) return undefined;
  // Without labels its index can be written.
  return type === "Enum" && choices?.length ? "choice" : "number";
}

/** Whether the PV has what was typed already. */
function isCurrent({ index, text }: Entry, pv: SetPointData | undefined): boolean {
  const { choices } = pv?.display ?? {};
  if (index === undefined || choices == null) return text === pv?.value?.string;
  return index === pv?.value?.number && text === choiceText(choices, index);
}

/**
 * How long the value's server has been silent, or how long the value has not changed although it
 * should.
 */
function ageOf(pv: SetPointData | undefined, isStale: boolean): string {
  if (!isStale) return "";
  const isSilent = pv?.connection.unresponsive === true;
  return isSilent ? silentText(pv.connection.lastHeard) : staleText(pv?.time ?? null);
}

/** The values that can be written, as far as the PV provides limits. */
function hintOf(pv: SetPointData | undefined, kind: keyof typeof CONTROLS): string {
  const limits = limitsOf(pv?.display?.controlRange);
  if (kind === "slider" && !Number.isFinite(limits.max - limits.min)) {
    return t`The PV has no limits, which a slider needs`;
  }
  if (kind === "choice" && pv !== undefined && !pv.display?.choices?.length) {
    return t`The PV has no choices`;
  }
  return kind === "text" || kind === "choice" ? "" : limitsText(limits, pv?.display?.units ?? "");
}

/** Shown with unsent text: the PV's value, if known. */
function Unsent({ pv }: { readonly pv: SetPointData | undefined }) {
  const severity = pv?.status.severity ?? "NO_ALARM";
  return (
    <>
      <strong>{t`Not sent`}</strong>
      {pv?.value != null && ` · ${t`the PV has ${pv.value.string} ${pv.display?.units ?? ""}`}`}
      {severity !== "NO_ALARM" && ` (${severity})`}
    </>
  );
}

function outcomeText(outcome: Outcome | undefined): string {
  switch (outcome?.kind) {
    case undefined:
      return "";
    case "written":
      return t`Written ${formatClock(outcome.atMs)}`;
    case "changed":
      return t`Written, but ${outcome.message}`;
    case "refused":
      return t`Refused: ${outcome.message}`;
    case "unknown":
      return t`Perhaps written: ${outcome.message}`;
  }
}
