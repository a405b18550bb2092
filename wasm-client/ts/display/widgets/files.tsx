/** The file selector: asks for the path of a file and writes it. */

import { useLayoutEffect, useRef, type ReactNode } from "react";

import { useShown } from "../context.js";
import { useDialogs } from "../dialogs.js";
import { pressOnce } from "../keys.js";
import { valueText, type ValueFormat } from "../model/format.js";
import { useSetter, useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";

const COMPONENTS = ["FULL", "DIRECTORY", "FULLNAME", "BASENAME"];

const AS_TEXT: ValueFormat = { format: "STRING", precision: -1, units: false };

/** The part of a path that the widget writes: all of it, its folder, its name, or that without its ending. */
export function partOf(path: string, component: string): string {
  const slash = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\"));
  const name = path.slice(slash + 1);
  switch (component) {
    case "DIRECTORY":
      // The folder of a file at the top is the top.
      return path.slice(0, slash === 0 ? 1 : Math.max(0, slash));
    case "FULLNAME":
      return name;
    case "BASENAME":
      return name.replace(/(?<=.)\.[^.]*$/, "");
    default:
      return path;
  }
}

/** A browser sees no files of the control system: the path is typed. */
export function FileSelector({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition, pv, value } = useWidgetPv(name);
  const { outcome, whyDisabled, write } = useSetter(name);
  const { prompt } = useDialogs();
  const { report } = useShown();
  const why = problem ?? whyDisabled(props.flag("enabled"), pv);
  // What keeps it from being written may have come up during the question.
  const latest = useRef(why);
  useLayoutEffect(() => {
    latest.current = why;
  });
  const label = `File for ${name ?? props.text("name")}`;
  const ask = async (): Promise<void> => {
    const now = value === undefined ? "" : valueText(value, pv?.display ?? null, AS_TEXT);
    const typed = await prompt(label, now);
    if (typed === undefined) return;
    if (latest.current === undefined)
      await write(partOf(typed, props.choice("component", COMPONENTS)));
    else report({ pv: name ?? "", kind: "refused", text: `Refused: ${latest.current}` });
  };
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={why}
      outcome={outcome}
      className="pvwire-display-button"
    >
      <button
        type="button"
        aria-label={label}
        disabled={why !== undefined}
        onKeyDown={pressOnce}
        onClick={() => void ask()}
      >
        <span style={{ textAlign: "center" }}>…</span>
      </button>
    </Box>
  );
}
