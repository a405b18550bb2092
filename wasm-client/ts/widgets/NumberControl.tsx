/** A field to type and send a number within the PV's limits; the arrow keys change its last digit. */

import type { KeyboardEvent, ReactNode } from "react";

import { t } from "../texts.js";
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
    else entry.refuse(t`${problem}; nothing was sent`);
  };

  const step = (event: KeyboardEvent): void => {
    const steps = STEPS[event.key];
    const text = entry.text ?? pv?.value?.exact ?? String(pv?.value?.number);
    if (steps === undefined || !Number.isFinite(Number(text))) return;
    event.preventDefault();
    const { precision, type } = pv?.display ?? {};
    // A double doesn't have all digits of an integer of 64 bits.
    const isWhole = type?.includes("Int") && /^-?\d+$/.test(text);
    const to = isWhole ? BigInt(text) + BigInt(steps) : Number(text) + steps * stepOf(pv);
    const { max, min } = limits;
    const within = to < min ? min : to > max ? max : to;
    // Without a precision, keeps all digits except those caused by rounding errors of the addition.
    entry.type(
      isWhole
        ? String(within)
        : precision == null
          ? String(rounded(Number(within)))
          : Number(within).toFixed(digitsOf(precision)),
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

/** Rounds as a decimal, so that 0.1 + 0.2 is 0.3. */
export const rounded = (number: number): number => Number(number.toPrecision(15));

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
    return t`${text} is not a finite number`;
  }
  const limits = limitsOf(controlRange);
  // Most records would silently clamp it to the limit.
  const isOutside = number < limits.min || number > limits.max;
  if (isNonFinite || !isOutside || text.trim() === "") return undefined;
  const within = Number.isFinite(limits.max - limits.min) ? t`within ` : "";
  return t`${text} is not ${within}${limitsText(limits, units)}`;
}
