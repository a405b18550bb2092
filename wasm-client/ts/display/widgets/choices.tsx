/** One of some choices: a list, buttons, or radio buttons. */

import { useId, type CSSProperties, type ReactNode } from "react";

import { useDialogs } from "../dialogs.js";
import { cssColour } from "../model/palette.js";
import type { Props } from "../model/props.js";
import { valueToPut } from "../model/typed.js";
import { alignmentOf, inkOf } from "../place.js";
import { useSetter, useWidgetPv, type WidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box, type BoxProps } from "./Box.js";

interface Choices extends WidgetPv {
  readonly labels: readonly string[];
  /** Index of the present one; -1 for another value or none. */
  readonly selected: number;
  readonly choose: (index: number) => void;
  readonly box: Pick<BoxProps, "condition" | "name" | "outcome" | "problem" | "props" | "widget">;
  readonly disabled: boolean;
}

function useChoices({ name, problem, props, widget }: WidgetProps): Choices {
  const of = useWidgetPv(name);
  const { outcome, whyDisabled, write } = useSetter(name);
  const { confirm } = useDialogs();
  const { pv, value } = of;
  const fromPv = props.flag("items_from_pv") ? (pv?.display?.choices ?? undefined) : undefined;
  const labels = fromPv ?? props.texts("items");
  const isEnum = pv?.display?.choices != null;
  const selected =
    value === undefined
      ? -1
      : isEnum && fromPv !== undefined
        ? (value.number ?? -1)
        : labels.indexOf(value.text ?? value.string);
  const why = problem ?? whyDisabled(props.flag("enabled"), pv);
  const choose = async (index: number): Promise<void> => {
    const label = labels[index];
    if (label === undefined || why !== undefined) return;
    if (!(await isConfirmed(props, confirm))) return;
    // An index stays right if two labels are equal.
    await write(fromPv === undefined ? valueToPut(label, pv?.display ?? null) : index);
  };
  return {
    ...of,
    labels,
    selected,
    choose: (index) => void choose(index),
    box: { condition: of.condition, name, outcome, problem: why, props, widget },
    disabled: why !== undefined,
  };
}

/** Asks if the display wants that. */
export async function isConfirmed(
  props: Props,
  confirm: (message: string, password?: string) => Promise<boolean>,
  isPush = true,
): Promise<boolean> {
  const kinds = ["NONE", "BOTH", "PUSH", "RELEASE"];
  const written = props.text("show_confirm_dialog");
  const kind = /^(?:true|false)$/.test(written)
    ? written === "true"
      ? "BOTH"
      : "NONE"
    : props.choice("show_confirm_dialog", kinds);
  const password = props.text("password");
  const isAsked = kind === "BOTH" || kind === (isPush ? "PUSH" : "RELEASE");
  if (!isAsked && password === "") return true;
  return await confirm(props.text("confirm_message"), password);
}

export function Combo(of: WidgetProps): ReactNode {
  const { box, choose, disabled, labels, selected, value } = useChoices(of);
  const { props } = of;
  const label = useId();
  // A value that isn't one of the choices is shown as it is.
  const other = value === undefined ? "" : (value.text ?? value.string);
  return (
    <Box {...box} className="pvwire-display-combo">
      <span id={label} className="pvwire-visually-hidden">
        {of.name ?? props.text("name")}
      </span>
      <select
        aria-labelledby={label}
        disabled={disabled}
        style={inkOf(props)}
        value={selected < 0 ? "" : String(selected)}
        onChange={(event) => {
          choose(Number(event.target.value));
        }}
      >
        {(selected < 0 || labels[selected] === undefined) && (
          <option value={selected < 0 ? "" : String(selected)} disabled hidden>
            {other}
          </option>
        )}
        {labels.map((text, at) => (
          <option key={at} value={String(at)}>
            {text}
          </option>
        ))}
      </select>
    </Box>
  );
}

export function ChoiceButtons(of: WidgetProps): ReactNode {
  const { box, choose, disabled, labels, selected } = useChoices(of);
  const { props } = of;
  const ink = inkOf(props);
  const styleOf = (at: number): CSSProperties => ({
    ...ink,
    ...alignmentOf(props),
    ...(at === selected ? { backgroundColor: cssColour(props.colour("selected_color")) } : {}),
  });
  return (
    <Box
      {...box}
      className="pvwire-display-choices"
      style={{ flexDirection: props.flag("horizontal") ? "row" : "column" }}
    >
      {labels.map((text, at) => (
        <button
          key={at}
          type="button"
          disabled={disabled}
          aria-pressed={at === selected}
          style={styleOf(at)}
          onClick={() => {
            choose(at);
          }}
        >
          {text}
        </button>
      ))}
    </Box>
  );
}

export function Radio(of: WidgetProps): ReactNode {
  const { box, choose, disabled, labels, selected } = useChoices(of);
  const { props } = of;
  const group = useId();
  return (
    <Box
      {...box}
      className="pvwire-display-radio"
      style={{
        ...inkOf(props, "open"),
        flexDirection: props.flag("horizontal") ? "row" : "column",
      }}
    >
      {labels.map((text, at) => (
        <label key={at}>
          <input
            type="radio"
            name={group}
            checked={at === selected}
            disabled={disabled}
            onChange={() => {
              choose(at);
            }}
          />
          {text}
        </label>
      ))}
    </Box>
  );
}
