/** An input field for text: Enter or a button sends it, Escape or a button reverts it. */

import {
  useLayoutEffect,
  useRef,
  type HTMLAttributes,
  type KeyboardEvent,
  type ReactNode,
  type SyntheticEvent,
} from "react";

import { t } from "../texts.js";
import type { ControlProps } from "./control_props.js";

export function TextControl(props: ControlProps): ReactNode {
  const { entry } = props;
  return (
    <EntryField
      {...props}
      onSend={() => {
        entry.send(entry.text ?? "");
      }}
    />
  );
}

export interface EntryFieldProps extends ControlProps {
  readonly onSend: () => void;
  readonly inputMode?: HTMLAttributes<HTMLInputElement>["inputMode"];
  readonly className?: string;
  /** For keys other than Enter and Escape. */
  readonly onKey?: (event: KeyboardEvent) => void;
}

/**
 * A field that stays focusable and readable when it can't be written, so that users can find the
 * reason.
 */
export function EntryField({
  pv,
  entry,
  enabled,
  labelledBy,
  describedBy,
  onSend,
  onKey,
  inputMode = "text",
  className = "",
}: EntryFieldProps): ReactNode {
  const isFixed = !enabled || entry.phase === "sending";
  const shown = pv?.value?.string ?? "";
  // The input, while all of its text is selected.
  const selected = useRef<HTMLInputElement>(undefined);
  useLayoutEffect(() => {
    // What is typed next replaces the PV's new text, too.
    if (entry.text === undefined && selected.current?.matches(":focus")) selected.current.select();
  }, [entry.text, shown]);
  return (
    <form
      className="pvwire-entry"
      onSubmit={(event) => {
        returnToField(event);
        if (!isFixed) onSend();
      }}
      onReset={(event) => {
        returnToField(event);
        entry.takeBack();
      }}
    >
      <input
        className={`pvwire-entry-text ${className}`}
        type="text"
        autoComplete="off"
        spellCheck={false}
        enterKeyHint="send"
        inputMode={inputMode}
        aria-labelledby={labelledBy}
        aria-describedby={describedBy}
        aria-invalid={entry.outcome?.kind === "refused"}
        aria-disabled={!enabled}
        readOnly={isFixed}
        value={entry.text ?? shown}
        onSelect={({ currentTarget: input }) => {
          const { selectionEnd, selectionStart, value } = input;
          selected.current =
            selectionStart === 0 && selectionEnd === value.length ? input : undefined;
        }}
        onChange={(event) => {
          entry.type(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape" && entry.phase === "typed") entry.takeBack();
          else if (!isFixed) onKey?.(event);
        }}
      />
      {pv?.display != null && pv.display.units !== "" && (
        <span className="pvwire-unit">{pv.display.units}</span>
      )}
      {entry.phase === "typed" && <EntryButtons enabled={enabled} />}
    </form>
  );
}

/**
 * Replaces the form's default action: its buttons disappear afterwards, and the focus must not be
 * lost.
 */
export function returnToField(event: SyntheticEvent<HTMLFormElement>): void {
  event.preventDefault();
  event.currentTarget.querySelector<HTMLElement>(".pvwire-entry-text")?.focus();
}

/** Buttons for users without a keyboard. */
export function EntryButtons({ enabled }: { readonly enabled: boolean }): ReactNode {
  return (
    <span className="pvwire-entry-buttons">
      <button type="submit" disabled={!enabled} title="Enter">
        {t`Send`}
      </button>
      <button type="reset" title="Escape">
        {t`Undo`}
      </button>
    </span>
  );
}
