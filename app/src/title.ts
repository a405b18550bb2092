/** The window's title and its icon, which show the alarm also while the window is in the background. */

import { useEffect } from "react";
import type { PvConnectionState, Severity } from "pvwire";

import type { Kind } from "./pv_kind";

export type Mood = Severity | "LOST" | "NONE";

/** As the icon's colour and shape: each shape is different, so that colour isn't needed. */
const ICONS: Readonly<Record<Mood, readonly [colour: string, path: string]>> = {
  NO_ALARM: ["#1d4f73", "M2 9h3l2-5 3 8 2-5h2"],
  NONE: ["#5c6672", "M2 9h3l2-5 3 8 2-5h2"],
  MINOR: ["#b8891d", "M8 3 13.5 13h-11Z"],
  MAJOR: ["#d0342c", "M6 2.5h4L13.5 6v4L10 13.5H6L2.5 10V6Z"],
  INVALID: ["#c22bb4", "M8 2.5 13.5 8 8 13.5 2.5 8Z"],
  LOST: ["#5c6672", "M3 3l10 10M13 3 3 13"],
};

export function moodOf(state: PvConnectionState, severity: Severity | null | undefined): Mood {
  if (state === "connecting") return "NONE";
  if (state !== "connected") return "LOST";
  return severity ?? "NONE";
}

/** The worst of a list whose PVs are of these kinds, the worst kind first. */
export function moodOfList(kinds: readonly Kind[], counts: Readonly<Record<Kind, number>>): Mood {
  const worst = kinds.find((kind) => kind !== "searched" && counts[kind] > 0);
  if (worst === "gone") return "LOST";
  return worst === undefined || worst === "searched" ? "NONE" : worst;
}

interface TitleCondition {
  readonly severity: Severity | undefined;
  readonly isPresent: boolean;
  readonly isStale: boolean;
  readonly text: string;
}

/** A PV's title: without a value that is present, the text of its condition. */
export function titleOf(
  name: string,
  value: string | undefined,
  { isPresent, isStale, severity, text }: TitleCondition,
): string {
  const alarm = severity === undefined || severity === "NO_ALARM" ? "" : `${severity} `;
  return `${alarm}${name} ${isPresent && !isStale ? (value ?? "") : text}`.trim();
}

export function useTitle(title: string, mood: Mood): void {
  useEffect(() => {
    document.title = `${title} – pvwire`;
  }, [title]);
  useEffect(() => {
    const [colour, path] = ICONS[mood];
    const svg =
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="${colour}"/>` +
      `<path d="${path}" fill="none" stroke="#fff" stroke-width="1.6"/></svg>`;
    const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    if (icon !== null) icon.href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  }, [mood]);
}
