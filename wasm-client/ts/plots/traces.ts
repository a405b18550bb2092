/** The PVs of a plot: their colours, scales and limits. */

import type { LivePvHistory, PvDisplay, PvRange } from "../types.js";
import type { Span } from "./steps.js";

export const MAX_TRACES = 20;

export const META = `{
  display { type units choices alarmRange { min max } warningRange { min max } }
}`;

export interface Meta {
  readonly display: Pick<
    PvDisplay,
    "type" | "units" | "choices" | "alarmRange" | "warningRange"
  > | null;
}

export interface Trace {
  readonly name: string;
  readonly colour: string;
  readonly dash: readonly number[];
  /** Traces with one scale have one axis. */
  readonly scale: string;
  readonly units: string;
  readonly choices: readonly string[] | undefined;
  /** Texts and structures have no curve. */
  readonly isNumber: boolean;
  readonly limits: Limits;
  readonly history: LivePvHistory | undefined;
  /** Seconds past 1970: `history` is of an earlier range, which ended then. */
  readonly knownTo?: number;
}

export interface Limits {
  readonly alarm: PvRange | null;
  readonly warning: PvRange | null;
}

/** Legible on each ground; the second ten have dashes. */
const COLOURS = {
  light: [
    ["#0b62a8", "#b3421f", "#1b7f4b", "#8a4fb0", "#946000"],
    ["#00798c", "#b0307a", "#5b6b00", "#444f9e", "#6b4a3a"],
  ].flat(),
  dark: [
    ["#6cb4f5", "#ff9c7a", "#63d297", "#cfa0ee", "#f0b64d"],
    ["#4fd0e0", "#f48ac8", "#c3d34f", "#a9b4ff", "#d9ab93"],
  ].flat(),
} as const;

export function traceOf(
  name: string,
  at: number,
  isDark: boolean,
  meta: Meta | undefined,
  history: LivePvHistory | undefined,
): Trace {
  const colours = isDark ? COLOURS.dark : COLOURS.light;
  const display = meta?.display ?? null;
  const choices = display?.choices ?? undefined;
  const units = display?.units ?? "";
  return {
    name,
    colour: colours[at % colours.length] ?? "#888",
    dash: at < colours.length ? [] : [6, 3],
    scale: choices === undefined ? `units ${units}` : `choices ${choices.join("\n")}`,
    units,
    choices,
    isNumber: !/^(?:String|Structure|Union|Any)$/.test(display?.type ?? ""),
    limits: { alarm: display?.alarmRange ?? null, warning: display?.warningRange ?? null },
    history,
  };
}

/** The newest pasts that have come, by PV: a chart that is moved keeps its curves until the past of its new range is there. */
export class KnownPasts {
  #known = new Map<string, { readonly history: LivePvHistory; readonly to: number }>();

  /** The traces over a span, with what was known before where nothing else is. */
  show(traces: readonly Trace[], span: Span): readonly Trace[] {
    return traces.map((trace) => {
      const { history, name } = trace;
      if (history === undefined) return trace;
      if (!history.isLoading) {
        this.#known.set(name, { history, to: span.to });
        return trace;
      }
      const before = this.#known.get(name);
      if (before === undefined || history.timeNs.length > 0) return trace;
      return { ...trace, history: before.history, knownTo: before.to };
    });
  }
}
