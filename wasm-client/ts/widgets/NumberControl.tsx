/** How is a number typed and sent? Within the PV's limits, by the arrow keys in its steps. */

import type { KeyboardEvent, ReactNode } from "react";

import type { ControlProps, SetPointData } from "./SetPoint.js";
import { EntryField } from "./TextControl.js";

export function NumberControl(props: ControlProps): ReactNode {
  const { pv, entry } = props;
  const range = pv?.display?.controlRange;

  /** What is no number is for the relay to refuse: it knows best what it takes. */
  const send = (): void => {
    const text = entry.text ?? "";
    const number = Number(text);
    // Most records would cut it off at the limit without a word.
    const outside = number < (range?.min ?? -Infinity) || number > (range?.max ?? Infinity);
    if (outside && text.trim() !== "") {
      entry.refuse(`${text} is not within ${limitsOf(pv)}; nothing was sent`);
    } else {
      entry.send(text);
    }
  };

  const step = (event: KeyboardEvent): void => {
    const steps = STEPS[event.key];
    const from = entry.text === undefined ? pv?.value?.number : Number(entry.text);
    if (steps === undefined || from == null || !Number.isFinite(from)) return;
    event.preventDefault();
    const digits = pv?.display?.precision ?? 0;
    const to = Math.min(
      Math.max(from + steps * stepOf(pv), range?.min ?? -Infinity),
      range?.max ?? Infinity,
    );
    entry.type(to.toFixed(digits));
  };

  return (
    <EntryField
      {...props}
      className="number"
      // A telephone's keys for decimals have no minus.
      inputMode={(range?.min ?? -1) >= 0 ? "decimal" : "text"}
      onSend={send}
      onKey={step}
    />
  );
}

const STEPS: Readonly<Partial<Record<string, number>>> = {
  ArrowUp: 1,
  ArrowDown: -1,
  PageUp: 10,
  PageDown: -10,
};

/** One of the last digit that is shown. */
export function stepOf(pv: SetPointData | undefined): number {
  return 10 ** -(pv?.display?.precision ?? 0);
}

/** `0 to 3 MV in steps of 0.01`; nothing where the PV has no limits. */
export function limitsOf(pv: SetPointData | undefined): string {
  const { controlRange = null, units = "", precision = null } = pv?.display ?? {};
  if (controlRange?.min == null || controlRange.max == null) return "";
  const digits = precision ?? 0;
  const limits = `${String(controlRange.min)} to ${String(controlRange.max)}`;
  return `${limits}${units === "" ? "" : ` ${units}`} in steps of ${stepOf(pv).toFixed(digits)}`;
}
