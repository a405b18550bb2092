/** The rows of a table as CSV, as RFC 4180 and spreadsheets have it. */

import { KIND_TEXTS } from "./pv_kind";
import type { Row } from "./pv_list";
import { stampText } from "./times";

export function cell(text: string): string {
  // A spreadsheet would compute a text that begins like a formula; a number with a sign stays one.
  const isFormula = /^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text));
  const safe = isFormula ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

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
  return [head, ...lines].map((cells) => cells.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Gives the browser a file. */
export function download(name: string, content: string | Blob, type = "text/csv"): void {
  const blob =
    typeof content === "string" ? new Blob([content], { type: `${type};charset=utf-8` }) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => {
    URL.revokeObjectURL(address);
  }, 10_000);
}
