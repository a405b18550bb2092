/** The PV of a widget, and writing it. */

import { usePut } from "../react/index.js";
import { usePvStore } from "../react/pv.js";
import type { PutOptions, PutResult, PutValue, PvClient, PvData } from "../types.js";
import { useCondition, type Condition } from "../widgets/condition.js";
import { whyNotWritable } from "../widgets/writable.js";
import { useShown, type Report, type Scope } from "./context.js";
import { usePaced } from "./frame_queue.js";
import type { WidgetSource } from "./model/file.js";
import { expand } from "./model/macros.js";
import { clientName } from "./model/names.js";
import { childOf, textOf } from "./model/xml.js";

/** The fields that widgets read. */
export const FIELDS = `{
  value { string number bigint text array }
  time { seconds nanoseconds }
  status { severity alarmStatus message mutable writable }
  display {
    type units precision choices
    displayRange { min max } controlRange { min max } warningRange { min max } alarmRange { min max }
  }
  connection { state connected since lastHeard unresponsive readable reason }
}` as string;

/** The result of `FIELDS`. */
export type WidgetData = Pick<PvData, "value" | "time" | "status" | "display" | "connection">;

export interface WidgetPv {
  readonly pv: WidgetData | undefined;
  /** `undefined` without a PV. */
  readonly condition: Condition | undefined;
  /** The present value; `undefined` while it isn't known. */
  readonly value: NonNullable<WidgetData["value"]> | undefined;
}

/** Whether the alarm or the connection has changed. */
export const isUrgent = (before: WidgetData | undefined, now: WidgetData | undefined): boolean =>
  before?.status !== now?.status || before?.connection !== now?.connection;

export function useWidgetPv(name: string | undefined): WidgetPv {
  const pv = usePaced(usePvStore<WidgetData>(name, FIELDS, undefined), isUrgent);
  const condition = useCondition(pv, undefined, name);
  return {
    pv,
    condition: name === undefined ? undefined : condition,
    value: condition.isPresent ? (pv?.value ?? undefined) : undefined,
  };
}

/** Types that read the whole value of `pv_name`. */
const PLAIN = /^(?:text|led|multi_state_led|byte|progress|tank|spinner|combo|bool|check|slide)/;

const none = (): void => undefined;

/**
 * Subscribes the PVs of many widgets before these are made, because the relay finds them meanwhile: those whose
 * names need no more than the macros around them. Ends when the returned function is called.
 */
export function subscribeEarly(
  client: PvClient,
  widgets: readonly WidgetSource[],
  { lookup }: Scope,
): () => void {
  const ends = widgets.map(({ node, type }) => {
    const isPlain = PLAIN.test(type) && childOf(node, "macros") === undefined;
    if (!isPlain || textOf(node, "visible") === "false") return none;
    const name = clientName(expand(textOf(node, "pv_name") ?? "", lookup))?.name;
    return name === undefined ? none : client.pv(name, FIELDS).subscribe(none);
  });
  return () => {
    for (const end of ends) end();
  };
}

/** Why nothing is written from a display that only shows. */
export const READ_ONLY = "This page is read-only";

export interface Setter {
  /** Why it can't be written now: the display disables it, it has no PV, or the PV can't be written. */
  readonly whyDisabled: (enabled: boolean, pv: WidgetData | undefined) => string | undefined;
  /** Writes; the outcome is shown on the display, and belongs to this PV. */
  readonly write: (value: PutValue, options?: PutOptions) => Promise<PutResult>;
  readonly outcome: Report["kind"] | undefined;
}

/** Writes the PV `name`. */
export function useSetter(name: string | undefined): Setter {
  const { readOnly, report } = useShown();
  const { error, put, state } = usePut(name);
  const outcome =
    state === "pending"
      ? "sending"
      : state === "failed"
        ? error?.mayBeWritten === true
          ? "unknown"
          : "refused"
        : undefined;
  const whyDisabled: Setter["whyDisabled"] = (enabled, pv) => {
    if (!enabled) return "Disabled by the display";
    if (readOnly) return READ_ONLY;
    return name === undefined ? "The widget has no PV" : whyNotWritable(name, pv);
  };
  const write = async (value: PutValue, options?: PutOptions): Promise<PutResult> => {
    const pv = name ?? "";
    report({ pv, kind: "sending", text: "Sending…" });
    const result = await put(value, options);
    report(reportOf(pv, result));
    return result;
  };
  return { whyDisabled, write, outcome };
}

/** The outcome of a put as the status line shows it. */
export function reportOf(pv: string, result: PutResult): Report {
  if (result.ok) {
    const { message } = result;
    return message === undefined
      ? { pv, kind: "written", text: "Written" }
      : { pv, kind: "changed", text: `Written, but ${message}` };
  }
  const { mayBeWritten, message } = result.error;
  return mayBeWritten
    ? { pv, kind: "unknown", text: `Perhaps written: ${message}` }
    : { pv, kind: "refused", text: `Refused: ${message}` };
}
