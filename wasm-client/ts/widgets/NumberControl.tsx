/** A field to type and send a number within the PV's limits; the arrow keys change its last digit. */

import type { KeyboardEvent, ReactNode } from "react";

import { digitsOf } from "./format.js";
import { limitsOf, limitsText } from "./range.js";
import type { ControlProps, SetPointData } from "./control_props.js";
import { EntryField } from "./TextControl.js";

export function NumberControl(props: ControlProps): ReactNode {
  const { allowNonFinite = false, entry, pv } = props;
  const limits = limitsOf(pv?.display?.controlRange);

  const send = (): void => {
    const text = entry.text ?? "";
    const problem = problemOf(text, pv, allowNonFinite);
    if (problem === undefined) entry.send(text);
    else entry.refuse(`${problem}; nothing was sent`);
  };

  const step = (event: KeyboardEvent): void => {
    const steps = STEPS[event.key];
    const from = entry.text === undefined ? pv?.value?.number : Number(entry.text);
    if (steps === undefined || from == null || !Number.isFinite(from)) return;
    event.preventDefault();
    const precision = pv?.display?.precision;
    const to = Math.min(Math.max(from + steps * stepOf(pv), limits.min), limits.max);
    // Without a precision, keeps all digits except those caused by rounding errors of the addition.
    entry.type(
      precision == null ? String(Number(to.toPrecision(15))) : to.toFixed(digitsOf(precision)),
    );
  };

  return (
    <EntryField
      {...props}
      className="number"
      // A telephone's decimal keypad has no minus.
      inputMode={limits.min >= 0 ? "decimal" : "text"}
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

/** A step of one in the last displayed digit. */
export function stepOf(pv: SetPointData | undefined): number {
  return 10 ** -digitsOf(pv?.display?.precision ?? 0);
}

const NUMBER_TYPE = /^(Float|U?Int)\d/;
const NON_FINITE = /^\s*[-+]?(nan|inf)/i;

/**
 * Why a text isn't sent. The relay refuses texts that are not numbers, because it knows the PV's
 * type.
 */
function problemOf(
  text: string,
  pv: SetPointData | undefined,
  allowNonFinite: boolean,
): string | undefined {
  const { controlRange, type = "Unknown", units = "" } = pv?.display ?? {};
  if (!NUMBER_TYPE.test(type)) return undefined;
  const number = Number(text);
  const isNonFinite = NON_FINITE.test(text);
  if (isNonFinite ? !allowNonFinite : Math.abs(number) === Infinity) {
    return `${text} is not a finite number`;
  }
  const limits = limitsOf(controlRange);
  // Most records would silently clamp it to the limit.
  const isOutside = number < limits.min || number > limits.max;
  if (isNonFinite || !isOutside || text.trim() === "") return undefined;
  const within = Number.isFinite(limits.max - limits.min) ? "within " : "";
  return `${text} is not ${within}${limitsText(limits, units)}`;
}
