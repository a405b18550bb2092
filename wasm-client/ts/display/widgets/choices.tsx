/** One of some choices: a list, buttons, or radio buttons. */

import {
  useId,
  useLayoutEffect,
  useRef,
  useState,
  type CSSProperties,
  type KeyboardEvent,
  type ReactNode,
} from "react";

import { useShown } from "../context.js";
import { useDialogs } from "../dialogs.js";
import { ARROWS, pressOnce } from "../keys.js";
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
  /** Writes a choice if it still has the label that the operator saw. */
  readonly choose: (index: number, label?: string) => void;
  readonly box: BoxProps;
  readonly disabled: boolean;
}

function useChoices(widget: WidgetProps): Choices {
  const { name, problem, props } = widget;
  const of = useWidgetPv(name);
  const { outcome, whyDisabled, write } = useSetter(name);
  const { confirm } = useDialogs();
  const { report } = useShown();
  const { pv, value } = of;
  const fromPv = props.flag("items_from_pv") ? (pv?.display?.choices ?? undefined) : undefined;
  const labels = fromPv ?? props.texts("items");
  const isEnum = pv?.display?.choices != null;
  const { type } = widget.widget;
  // As Phoebus: buttons stand for the numbers of a PV without labels, radio buttons also for the indices of an enum.
  const isByIndex = isEnum
    ? fromPv !== undefined || type === "radio"
    : type !== "combo" && value?.number != null && pv?.display?.type !== "Boolean";
  const selected =
    value === undefined
      ? -1
      : isByIndex
        ? Math.trunc(value.number ?? -1)
        : labels.indexOf(value.text ?? value.string);
  const why = problem ?? whyDisabled(props.flag("enabled"), pv);
  const put = async (index: number, label: string): Promise<void> => {
    if (why !== undefined || labels[index] !== label) {
      const reason = why ?? `the choice ${label} has changed`;
      report({ pv: name ?? "", kind: "refused", text: `Refused: ${reason}; nothing was sent` });
      return;
    }
    // An index stays right if two labels are equal.
    await write(isByIndex ? index : valueToPut(label, pv?.display ?? null));
  };
  // A question takes time: what is written then depends on what is known then.
  const latest = useRef(put);
  useLayoutEffect(() => {
    latest.current = put;
  });
  const choose = async (index: number, label = labels[index]): Promise<void> => {
    if (label === undefined || why !== undefined || !(await isConfirmed(props, confirm))) return;
    await latest.current(index, label);
  };
  return {
    ...of,
    labels,
    selected,
    choose: (index, label) => void choose(index, label),
    box: { ...widget, condition: of.condition, problem: why, outcome },
    disabled: why !== undefined,
  };
}

/** Whether the display wants a question before a write. */
export function asksBefore(props: Props, isPush = true): boolean {
  const kinds = ["NONE", "BOTH", "PUSH", "RELEASE"];
  const written = props.text("show_confirm_dialog");
  const kind = /^(?:true|false)$/.test(written)
    ? written === "true"
      ? "BOTH"
      : "NONE"
    : props.choice("show_confirm_dialog", kinds);
  const isAsked = kind === "BOTH" || kind === (isPush ? "PUSH" : "RELEASE");
  return isAsked || props.text("password") !== "";
}

/** Asks if the display wants that. */
export async function isConfirmed(
  props: Props,
  confirm: (message: string, password?: string) => Promise<boolean>,
  isPush = true,
): Promise<boolean> {
  if (!asksBefore(props, isPush)) return true;
  return await confirm(props.text("confirm_message"), props.text("password"));
}

/** A list. A choice by keys is written by Enter: each that the arrow keys pass would be another put. */
export function Combo(of: WidgetProps): ReactNode {
  const { box, choose, disabled, labels, selected, value } = useChoices(of);
  const { props } = of;
  const label = useId();
  const isByKeys = useRef(false);
  const [chosen, setChosen] = useState<{ readonly index: number; readonly label: string }>();
  const pending = disabled ? undefined : chosen;
  const drop = (): void => {
    setChosen(undefined);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    isByKeys.current = true;
    if (event.key === "Escape") drop();
    if (event.key !== "Enter" || pending === undefined) return;
    event.preventDefault();
    if (event.repeat) return;
    drop();
    choose(pending.index, pending.label);
  };
  const shown = pending?.index ?? selected;
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
        value={shown < 0 ? "" : String(shown)}
        data-typed={pending !== undefined || undefined}
        onPointerDown={() => {
          isByKeys.current = false;
        }}
        onKeyDown={onKeyDown}
        onFocus={drop}
        onBlur={drop}
        onChange={(event) => {
          const index = Number(event.target.value);
          const isHeld = isByKeys.current && index !== selected;
          setChosen(isHeld ? { index, label: labels[index] ?? "" } : undefined);
          if (!isByKeys.current) choose(index);
        }}
      >
        {labels[shown] === undefined && (
          <option value={shown < 0 ? "" : String(shown)} disabled hidden>
            {pending?.label ?? other}
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
          onKeyDown={pressOnce}
          onClick={() => {
            choose(at);
          }}
        >
          <span>{text}</span>
        </button>
      ))}
    </Box>
  );
}

/** The arrow keys move only the focus: each choice that they pass would be written. */
function moveFocus(event: KeyboardEvent<HTMLInputElement>): void {
  const sign = ARROWS[event.key];
  if (sign === undefined) return;
  event.preventDefault();
  const { currentTarget } = event;
  const all = [...currentTarget.ownerDocument.getElementsByName(currentTarget.name)];
  // The next one is below, or to the right.
  const isVertical = event.key === "ArrowUp" || event.key === "ArrowDown";
  all.at((all.indexOf(currentTarget) + (isVertical ? -sign : sign)) % all.length)?.focus();
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
            onKeyDown={moveFocus}
            onChange={() => {
              choose(at);
            }}
          />
          <span>{text}</span>
        </label>
      ))}
    </Box>
  );
}
