/** One PV's value, its condition, and its time. */

import { memo, useRef, type PointerEvent, type ReactNode } from "react";
import type { PvDisplay, PvStatus, PvTime, PvValue } from "../types.js";
import { t } from "../texts.js";

import { noAccessText, useCondition, type ConditionData } from "./condition.js";
import { formatIsoNanoseconds, formatSmall, formatTimeStamp } from "./format.js";
import { useLivePv } from "./live.js";
import { perPv } from "./per_pv.js";
import { moveMark, RangeBar } from "./RangeBar.js";
import { StateIcon } from "./StateIcon.js";

const SELECTION = `{
  value { string number }
  time { seconds nanoseconds }
  status { severity alarmStatus message mutable writable }
  display {
    type description units precision
    displayRange { min max } warningRange { min max } alarmRange { min max }
  }
  connection { state connected since lastHeard unresponsive readable reason }
}`;

/** The result of SELECTION. */
export interface ReadbackData {
  readonly value: Pick<PvValue, "string" | "number"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly status: Pick<PvStatus, "severity" | "alarmStatus" | "message" | "mutable" | "writable">;
  readonly display: Pick<
    PvDisplay,
    "type" | "description" | "units" | "precision" | "displayRange" | "warningRange" | "alarmRange"
  > | null;
  readonly connection: ConditionData["connection"];
}

/** The properties of `Readback`. */
export interface ReadbackProps {
  /** The PV. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** For quantities that span decades: shown as `3.2e-9` if PREC digits would all be zeros. */
  readonly notation?: "exponent";
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/** One PV's value with units, alarm, limits, time stamp and access rights. */
export const Readback = perPv(function Readback({
  name,
  label = name,
  notation,
  staleAfterMs,
}: ReadbackProps): ReactNode {
  const value = useRef<HTMLSpanElement>(null);
  const stamp = useRef<HTMLTimeElement>(null);
  const mark = useRef<HTMLElement>(null);
  const isAlike = staleAfterMs === undefined ? areAlike : areAlikeWithTime;
  const [pv, ref] = useLivePv<ReadbackData>(name, SELECTION, isAlike, (pv) => {
    writeText(value.current, valueText(pv, notation));
    if (pv?.time != null && stamp.current !== null) writeStamp(stamp.current, pv.time);
    if (pv?.value != null && pv.display !== null && mark.current !== null) {
      moveMark(mark.current, { display: pv.display, number: pv.value.number });
    }
  });
  const { state, severity, isPresent, isStale, text } = useCondition(pv, staleAfterMs, name);
  return (
    <div
      ref={ref}
      className="pvwire-readback"
      role="group"
      aria-label={label}
      data-pv={name}
      data-state={state}
      data-present={isPresent || undefined}
      data-severity={severity}
      data-stale={isStale || undefined}
    >
      <p className="pvwire-readback-label" title={pv?.display?.description}>
        {label}
      </p>
      <div className="pvwire-readback-value">
        <StateIcon state={state} severity={severity} isStale={isStale} />
        <span ref={value} className="pvwire-readback-text" data-part="value">
          {valueText(pv, notation)}
          {pv?.value != null && pv.display !== null && <Unit units={pv.display.units} />}
        </span>
        {pv?.display?.displayRange != null && isPresent && (
          <RangeBar display={pv.display} number={pv.value?.number ?? null} mark={mark} />
        )}
      </div>
      <p className="pvwire-readback-name">
        <span title={name}>{name}</span>
        {pv?.connection.connected === true && (
          <Access name={name} mutable={pv.status.mutable} writable={pv.status.writable} />
        )}
      </p>
      <p className="pvwire-readback-condition">
        <span data-part="condition">{text}</span>
        {pv?.time != null && isPresent && (
          <time ref={stamp} dateTime={formatIsoNanoseconds(pv.time)} onPointerEnter={titleStamp}>
            {formatTimeStamp(pv.time)}
          </time>
        )}
      </p>
    </div>
  );
});

/**
 * Whether two results differ at most in the text of the value, the position of the mark and the time
 * stamp, which are written without rendering. Objects in which nothing changed are identical.
 */
function areAlike(one: ReadbackData, other: ReadbackData): boolean {
  return (
    one.status === other.status &&
    one.display === other.display &&
    one.connection === other.connection &&
    (one.time === null) === (other.time === null) &&
    (one.value === other.value ||
      (one.value !== null &&
        other.value !== null &&
        // There is no mark without a number, and React makes no node of an empty text.
        isNumber(one.value.number) === isNumber(other.value.number) &&
        (one.value.string === "") === (other.value.string === "")))
  );
}

const isNumber = (number: number | null): boolean => number !== null && !Number.isNaN(number);

/** The same if a value without a new time stamp becomes stale. */
const areAlikeWithTime = (one: ReadbackData, other: ReadbackData): boolean =>
  one.time === other.time && areAlike(one, other);

/** Replaces the element's first text. */
function writeText(element: HTMLElement | null, text: string): void {
  const node = element?.firstChild;
  // Not `instanceof`: the element may be in another window.
  if (node?.nodeType === Node.TEXT_NODE && node.nodeValue !== text) node.nodeValue = text;
}

function writeStamp(element: HTMLTimeElement, time: Pick<PvTime, "seconds" | "nanoseconds">): void {
  const dateTime = formatIsoNanoseconds(time);
  if (element.dateTime !== dateTime) element.dateTime = dateTime;
  writeText(element, formatTimeStamp(time));
}

const Unit = memo(function Unit({ units }: { readonly units: string }) {
  return units !== "" && <span className="pvwire-unit"> {units}</span>;
});

/**
 * Sets the complete time stamp as title when the pointer enters: setting it for each new value
 * would cause style recalculations.
 */
function titleStamp({ currentTarget }: PointerEvent<HTMLTimeElement>): void {
  currentTarget.title = t`Value of ${currentTarget.dateTime}`;
}

interface AccessProps extends Pick<PvStatus, "mutable" | "writable"> {
  readonly name: string;
}

/** Access to the PV from this page: the IOC's access rights, limited by what the relay permits. */
const Access = memo(function Access({ mutable, name, writable }: AccessProps) {
  return (
    <span
      className="pvwire-access"
      // A title is read by screen readers; visually hidden text would cost a layer to paint.
      role="img"
      data-access={writable === false ? "read-only" : "write"}
      title={accessText(name, mutable, writable)}
    >
      {writable === false ? "ro" : "rw"}
    </span>
  );
});

function accessText(name: string, mutable: boolean, writable: boolean | null): string {
  if (writable === null) return t`Whether it may be written shows when it is tried`;
  if (writable) return t`The IOC and the relay allow reading and writing`;
  return mutable ? t`Writing is not allowed by the relay` : noAccessText(name);
}

function valueText(pv: ReadbackData | undefined, notation: "exponent" | undefined): string {
  if (pv?.value == null) {
    return "–";
  }
  const { number, string } = pv.value;
  const precision = pv.display?.precision;
  // Without a precision the text already has all digits.
  if (notation === "exponent" && number !== null && precision != null) {
    return formatSmall(number, precision, string);
  }
  return string;
}
