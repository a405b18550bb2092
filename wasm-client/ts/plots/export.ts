/** What a plot shows, as a file: all values as CSV, or the picture as PNG. */

import { t } from "../texts.js";

import type { Span } from "./steps.js";
import type { Trace } from "./traces.js";

/** A number with a sign, also with its unit. */
const SIGNED =
  /^[-+](?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|inf(?:inity)?|nan)(?: [\p{L}\p{N}°%‰/·²³.^*_-]{1,20})?$/iu;

function cell(text: string): string {
  // A spreadsheet would compute a text that begins like a formula.
  const isFormula = /^[=+@\t\r-]/.test(text) && !SIGNED.test(text);
  const safe = isFormula ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A table as CSV. A text that a spreadsheet would take for a formula begins with an apostrophe. */
export function csvText(lines: readonly (readonly string[])[]): string {
  return lines.map((cells) => cells.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Gives the browser a file to store. A text is CSV unless `type` is another. */
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

const SEVERITIES = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

/** ISO 8601 in UTC with all digits of the time stamp. */
function isoOf(ns: bigint): string {
  const seconds = new Date(Number(ns / 1_000_000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(ns % 1_000_000_000n).padStart(9, "0")}Z`;
}

/** One line for each update that is drawn in the interval, and the value that held at its begin. */
export function csvOfTraces(traces: readonly Trace[], { from, to }: Span): string {
  const [fromNs, toNs] = [from, to].map((at) => BigInt(Math.round(1000 * at)) * 1_000_000n);
  const lines = [["PV", "time (UTC)", "value", "units", "alarm"]];
  for (const { choices, history, isNumber, name, units } of traces) {
    if (!isNumber || history === undefined || fromNs === undefined || toNs === undefined) continue;
    const { numbers, severities, timeNs } = history;
    const first = timeNs.findIndex((ns) => ns > fromNs && ns <= toNs);
    const end = first < 0 ? timeNs.length : first;
    let before = end - 1;
    while (before >= 0 && (timeNs[before] ?? 0n) > fromNs) before -= 1;
    for (let row = Math.max(0, before); row < timeNs.length; row += 1) {
      const ns = timeNs[row] ?? 0n;
      // Time stamps may go back: earlier updates may follow later ones.
      if (row !== before && (ns <= fromNs || ns > toNs)) continue;
      // An update without a time stamp isn't drawn.
      if (ns <= 0n) continue;
      const number = numbers[row] ?? NaN;
      const value = choices?.[number] ?? String(number);
      lines.push([name, isoOf(ns), value, units, SEVERITIES[severities[row] ?? 0] ?? ""]);
    }
  }
  return csvText(lines);
}

const LINE = 20;

/** The charts below each other, with the names of the traces under them. */
export async function pngOf(
  canvases: readonly HTMLCanvasElement[],
  traces: readonly Trace[],
  colours: { readonly ground: string; readonly text: string },
): Promise<Blob> {
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(...canvases.map((canvas) => canvas.width));
  const height = canvases.reduce((sum, canvas) => sum + canvas.height, 0);
  const picture = document.createElement("canvas");
  picture.width = width;
  picture.height = height + Math.ceil((traces.length + 1) * LINE * scale);
  const context = picture.getContext("2d");
  if (context === null) throw new Error(t`this browser can't draw the picture`);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, picture.width, picture.height);
  let top = 0;
  for (const canvas of canvases) {
    context.drawImage(canvas, 0, top);
    top += canvas.height;
  }
  context.scale(scale, scale);
  context.font = "13px system-ui, sans-serif";
  traces.forEach(({ colour, name, units }, at) => {
    const y = top / scale + (at + 1) * LINE;
    context.fillStyle = colour;
    context.fillRect(12, y - 9, 14, 10);
    context.fillStyle = colours.text;
    context.fillText(units === "" ? name : `${name} (${units})`, 34, y);
  });
  return new Promise((resolve, reject) => {
    picture.toBlob((blob) => {
      if (blob === null) reject(new Error(t`this browser can't write the picture`));
      else resolve(blob);
    }, "image/png");
  });
}
