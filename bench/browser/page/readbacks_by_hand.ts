/** 1,000 readbacks written by hand, against which the `Readback` widget is measured. The same elements, kept up to date without React. */

import type { PvClient } from "pvwire";
import { formatTimeStamp } from "pvwire/widgets";

/** What a widget shows of an update. */
interface Shown {
  readonly value: { readonly string: string; readonly number: number | null } | null;
  readonly time: { readonly seconds: number; readonly nanoseconds: number } | null;
  readonly status: { readonly severity: string | null; readonly alarmStatus: string };
}

const SELECTION =
  "{ value { string number } time { seconds nanoseconds } status { severity alarmStatus } }";

/**
 * Writes what changes of each PV into the elements of its widget, which nothing else changes. As the
 * widget does, where it is seen: what comes into view has the next update.
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
  for (const widget of widgets.querySelectorAll<HTMLElement>("[data-pv]")) {
    const part = (selector: string): HTMLElement => widget.querySelector(selector) as HTMLElement;
    const value = part("[data-part=value]").firstChild as Text;
    const condition = part("[data-part=condition]").firstChild as Text;
    const time = part("time").firstChild as Text;
    const mark = part(".pvwire-gauge-mark");
    const pv = client.pv<Shown>(widget.dataset.pv ?? "", SELECTION);
    let severity: string | null | undefined;
    let middle = NaN;
    observer.observe(widget);
    pv.subscribe(() => {
      if (!seen.has(widget)) return;
      const shown = pv.getSnapshot();
      if (shown?.value == null || shown.time === null) return;
      value.data = shown.value.string;
      time.data = formatTimeStamp(shown.time);
      const number = shown.value.number ?? NaN;
      if (Number.isNaN(middle)) middle = Math.round(number);
      mark.style.backgroundPositionX = `${String(50 * (1 + number - middle))}%`;
      if (shown.status.severity === severity) return;
      severity = shown.status.severity;
      widget.dataset.severity = severity ?? undefined;
      condition.data = `${severity ?? ""} ${shown.status.alarmStatus}`;
    });
  }
}
