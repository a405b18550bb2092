/** The rows of a table as CSV. */

import { csvText } from "pvwire/plots";

import { KIND_TEXTS } from "./pv_kind";
import type { Row } from "./pv_list";
import { stampText } from "./times";

export function csvOf(rows: readonly Row[], isUtc: boolean): string {
  const zone = isUtc ? "UTC" : "local";
  const head = ["PV", "value", "state", "alarm", "status", "message", `time (${zone})`];
  const lines = rows.map(({ kind, name, read }) => {
    const pv = read();
    const { alarmStatus, message, severity } = pv?.status ?? {};
    const time = pv?.time == null ? "" : stampText(pv.time, isUtc);
    const texts = [pv?.value?.string, KIND_TEXTS[kind], severity, alarmStatus, message, time];
    return [name, ...texts.map((text) => text ?? "")];
  });
  return csvText([head, ...lines]);
}
