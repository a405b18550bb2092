/** Set points with text: the text entry and the spinner. */

import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from "react";

import type { PutResult } from "../../types.js";
import { useShown } from "../context.js";
import { limitsOf, limitsText } from "../../widgets/range.js";
import { formatOf, valueText } from "../model/format.js";
import { typedNumber, typedValue } from "../model/typed.js";
import { alignmentOf, borderOf, inkOf } from "../place.js";
import { useSetter, useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";

export function TextEntry({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition, pv, value } = useWidgetPv(name);
  const { outcome, whyDisabled, write } = useSetter(name);
  const disabled = problem ?? whyDisabled(props.flag("enabled"), pv);
  const how = formatOf(props);
  const shown = pv?.value == null ? "" : valueText(pv.value, pv.display, how);
  const typing = useTyping(shown, disabled === undefined && value !== undefined);
  const { typed } = typing;
  const label = useId();
  const send = (): void => {
    if (typed === undefined || disabled !== undefined) return;
    const sent = typedValue(typed, pv, how.format);
    void typing.send(typed, () => write(sent, { checkLimits: true }));
  };
  const isLong = props.flag("multi_line");
  const field = {
    "aria-labelledby": label,
    value: typing.text,
    readOnly: disabled !== undefined,
    "data-typed": typing.differs || undefined,
    spellCheck: false,
    style: { ...alignmentOf(props), ...inkOf(props), display: "block" },
    onChange: (event: { target: { value: string } }) => {
      typing.type(event.target.value);
    },
    onFocus: typing.hold,
    onPointerDown: typing.hold,
    onBlur: typing.leave,
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === "Escape") typing.takeBack();
      else if (event.key !== "Enter") typing.hold();
      if (event.key !== "Enter" || (isLong && !event.ctrlKey)) return;
      event.preventDefault();
      if (!event.repeat) send();
    },
  };
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={disabled}
      outcome={outcome}
      className="pvwire-display-entry"
      style={borderOf(props)}
    >
      <span id={label} className="pvwire-visually-hidden">
        {name ?? props.text("name")}
      </span>
      {isLong ? <textarea {...field} /> : <input type="text" {...field} />}
    </Box>
  );
}

/** Of steps that come faster than they are written, the last one is. */
const NEWEST = { checkLimits: true, coalesce: true } as const;

/** Steps up and down within the PV's limits. */
export function Spinner({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition, pv, value } = useWidgetPv(name);
  const { outcome, whyDisabled, write } = useSetter(name);
  const { report } = useShown();
  const disabled = problem ?? whyDisabled(props.flag("enabled"), pv);
  const how = formatOf(props);
  const shown = pv?.value == null ? "" : valueText(pv.value, pv.display, how);
  const typing = useTyping(shown, disabled === undefined && value !== undefined);
  const { typed } = typing;
  const own = { min: props.number("minimum"), max: props.number("maximum") };
  const limits = limitsOf(props.flag("limits_from_pv") ? pv?.display?.controlRange : own);
  const increment = props.number("increment", props.number("step_increment"));
  const label = useId();
  const refuse = (why: string): void => {
    report({ pv: name ?? "", kind: "refused", text: `Refused: ${why}` });
  };
  const sendTyped = (text: string): void => {
    if (disabled !== undefined) return;
    const sent = typedValue(text, pv, how.format);
    if (typeof sent !== "number" && typeof sent !== "bigint") {
      refuse(`${text}: not a number`);
    } else if (sent < limits.min || sent > limits.max) {
      const range = limitsText(limits, pv?.display?.units ?? "");
      refuse(`${text} isn't within the limits, ${range}; nothing was sent`);
    } else {
      void typing.send(text, () => write(sent, NEWEST));
    }
  };
  const step = async (to: number): Promise<void> => {
    const result = await write(Math.max(limits.min, Math.min(limits.max, to)), NEWEST);
    if (result.ok) typing.sent(typed);
  };
  const turn = (sign: 1 | -1): void => {
    if (disabled !== undefined) return;
    const present = value?.bigint ?? value?.number;
    const type = pv?.display?.type;
    if (typed === undefined) {
      // From here on the field follows the PV: a step begins at what is shown.
      typing.takeBack();
      if (typing.differs) {
        refuse("the value has changed meanwhile and is shown now; nothing was sent");
        return;
      }
    }
    const from = typed === undefined ? present : typedNumber(typed, how.format, type);
    if (from == null) return;
    const next = Number(from) + sign * increment;
    const isWhole = Number.isInteger(next) && Number.isInteger(Number(from));
    const isWide = type === "Int64" || type === "UInt64";
    if (isWide && !(isWhole && Number.isSafeInteger(Number(from)) && Number.isSafeInteger(next))) {
      refuse("only whole numbers below 2⁵³ can be stepped");
      return;
    }
    // Rounded as decimals, so that 0.1 + 0.2 is 0.3.
    void step(isWhole ? next : Number(next.toPrecision(15)));
  };
  const buttons = (
    <span className="pvwire-display-steps">
      <button
        type="button"
        tabIndex={-1}
        aria-label="Up"
        disabled={disabled !== undefined}
        onClick={() => {
          turn(1);
        }}
      >
        ▴
      </button>
      <button
        type="button"
        tabIndex={-1}
        aria-label="Down"
        disabled={disabled !== undefined}
        onClick={() => {
          turn(-1);
        }}
      >
        ▾
      </button>
    </span>
  );
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={disabled}
      outcome={outcome}
      className="pvwire-display-entry pvwire-display-spinner"
    >
      <span id={label} className="pvwire-visually-hidden">
        {name ?? props.text("name")}
      </span>
      {props.flag("buttons_on_left") && buttons}
      <input
        type="text"
        inputMode="decimal"
        role="spinbutton"
        aria-labelledby={label}
        aria-valuenow={value?.number ?? undefined}
        value={typing.text}
        readOnly={disabled !== undefined}
        data-typed={typing.differs || undefined}
        style={{ ...inkOf(props), textAlign: alignmentOf(props).textAlign }}
        onChange={(event) => {
          typing.type(event.target.value);
        }}
        onFocus={typing.hold}
        onPointerDown={typing.hold}
        onBlur={typing.leave}
        onKeyDown={(event) => {
          const isTurn = event.key === "ArrowUp" || event.key === "ArrowDown";
          if (event.key === "Escape") typing.takeBack();
          else if (event.key !== "Enter" && !isTurn) typing.hold();
          if (event.key === "Enter" && !event.repeat && typed !== undefined) sendTyped(typed);
          if (!isTurn) return;
          event.preventDefault();
          turn(event.key === "ArrowUp" ? 1 : -1);
        }}
      />
      {!props.flag("buttons_on_left") && buttons}
    </Box>
  );
}

interface Typing {
  /** What the field shows. */
  readonly text: string;
  /** `undefined` unless something is typed that isn't sent. */
  readonly typed: string | undefined;
  /** The field shows something else than the PV's value. */
  readonly differs: boolean;
  readonly type: (text: string) => void;
  /** Shows the PV's value again. */
  readonly takeBack: () => void;
  /** The text was written: what has been typed since then stays. */
  readonly sent: (text: string | undefined) => void;
  /** From now on updates don't change the field. */
  readonly hold: () => void;
  /** Writes a text and calls `sent`. While it is being written it isn't written again; refused, it stays. */
  readonly send: (text: string, write: () => Promise<PutResult>) => Promise<void>;
  readonly leave: () => void;
}

/** `shown` is the PV's value; without a present one, or while nothing can be written, nothing is held. */
function useTyping(shown: string, canHold: boolean): Typing {
  const [typed, setTyped] = useState<string>();
  const [held, setHeld] = useState<string>();
  const sending = useRef<string>(undefined);
  const text = typed ?? (canHold ? held : undefined) ?? shown;
  const sent = (written: string | undefined): void => {
    setTyped((now) => (now === written ? undefined : now));
    setHeld(undefined);
  };
  return {
    text,
    typed,
    differs: typed !== undefined || text !== shown,
    type: setTyped,
    takeBack: () => {
      setTyped(undefined);
      setHeld(undefined);
    },
    sent,
    send: async (own, write) => {
      if (sending.current === own) return;
      sending.current = own;
      try {
        if ((await write()).ok) sent(own);
      } finally {
        if (sending.current === own) sending.current = undefined;
      }
    },
    hold: () => {
      if (canHold) setHeld((now) => now ?? shown);
    },
    leave: () => {
      // What isn't sent stays marked while it differs from the value.
      setTyped((now) => (now === shown || now === held ? undefined : now));
      setHeld(undefined);
    },
  };
}
