/** 1,000 readbacks written by hand, against which the `Readback` widget is measured. The same elements with the same contents at the same moments, without React. */

import type { PvClient } from "pvwire";
import { formatTimeStamp } from "pvwire/widgets";

import { RATE_HZ } from "../pvs";

/** What a widget shows of an update. */
interface Shown {
  readonly value: { readonly string: string; readonly number: number | null } | null;
  readonly time: { readonly seconds: number; readonly nanoseconds: number } | null;
  readonly status: { readonly severity: string | null; readonly alarmStatus: string };
}

const SELECTION =
  "{ value { string number } time { seconds nanoseconds } status { severity alarmStatus } }";

/** Out of view a widget is written once in this number of updates: every two seconds. */
const UPDATES_OUT_OF_VIEW = 2 * RATE_HZ;

/** The contents of the widget's icon. */
const SHAPES: Readonly<Record<string, string>> = {
  NO_ALARM: '<circle cx="8" cy="8" r="3.5" class="filled"></circle>',
  MINOR: '<path d="M8 2 15 14H1Z" class="filled"></path>',
  MAJOR: '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5Z" class="filled"></path>',
};

/**
 * Writes what changes of each PV into the elements of its widget, which nothing else changes. As the
 * widget does, at once where it is in view and now and then elsewhere, because screen readers and
 * searches of the page read there too.
 */
export function writeReadbacks(client: PvClient, widgets: ParentNode): void {
  const seen = new Set<Element>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) seen.add(target);
        else seen.delete(target);
      }
    },
    { rootMargin: "100px" },
  );
  widgets.querySelectorAll<HTMLElement>("[data-pv]").forEach((widget, nth) => {
    const pv = client.pv<Shown>(widget.dataset.pv ?? "", SELECTION);
    const write = writer(widget);
    let skipped = nth % UPDATES_OUT_OF_VIEW;
    observer.observe(widget);
    pv.subscribe(() => {
      if (!seen.has(widget) && ++skipped < UPDATES_OUT_OF_VIEW) return;
      skipped = 0;
      const shown = pv.getSnapshot();
      if (shown !== undefined) write(shown);
    });
  });
}

function writer(widget: HTMLElement): (shown: Shown) => void {
  const part = (selector: string): HTMLElement => widget.querySelector(selector) as HTMLElement;
  const value = part("[data-part=value]").firstChild as Text;
  const condition = part("[data-part=condition]").firstChild as Text;
  const time = part("time") as HTMLTimeElement;
  const stamp = time.firstChild as Text;
  const mark = part(".pvwire-gauge-mark");
  const icon = part("svg");
  let severity: string | null | undefined;
  let middle = NaN;
  return (shown) => {
    if (shown.value === null || shown.time === null) return;
    value.data = shown.value.string;
    stamp.data = formatTimeStamp(shown.time);
    time.dateTime = isoNanoseconds(shown.time);
    const number = shown.value.number ?? NaN;
    if (Number.isNaN(middle)) middle = Math.round(number);
    mark.style.backgroundPositionX = `${String(50 * (1 + number - middle))}%`;
    if (shown.status.severity === severity) return;
    severity = shown.status.severity;
    widget.dataset.severity = severity ?? undefined;
    condition.data =
      severity === "NO_ALARM" ? "No alarm" : `${severity ?? ""} ${shown.status.alarmStatus}`;
    icon.innerHTML = SHAPES[severity ?? ""] ?? "";
  };
}

/** As the widget's `dateTime`. */
function isoNanoseconds({ nanoseconds, seconds }: NonNullable<Shown["time"]>): string {
  const whole = new Date(Math.round(seconds - nanoseconds / 1e9) * 1000).toISOString();
  return `${whole.slice(0, 19)}.${String(nanoseconds).padStart(9, "0")}Z`;
}
