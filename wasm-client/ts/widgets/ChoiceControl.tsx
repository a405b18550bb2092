/** Sets one of a PV's choices: a few as buttons that write at once, many as a list with Send. */

import type { ReactNode } from "react";

import type { ControlProps } from "./control_props.js";
import { EntryButtons, returnToField } from "./TextControl.js";

const MOST_BUTTONS = 4;

export function ChoiceControl(props: ControlProps): ReactNode {
  const choices = props.pv?.display?.choices ?? [];
  return choices.length > MOST_BUTTONS ? (
    <List {...props} choices={choices} />
  ) : (
    <Buttons {...props} choices={choices} />
  );
}

interface ChoicesProps extends ControlProps {
  readonly choices: readonly string[];
}

/**
 * Sends labels, not indices: either the label that the button showed when it was pressed is
 * written, or nothing.
 *
 * Uses buttons instead of radio buttons, which would write every choice that the arrow keys pass.
 */
function Buttons({ pv, entry, enabled, choices, labelledBy, describedBy }: ChoicesProps) {
  return (
    <span
      className="pvwire-choice-buttons"
      role="group"
      aria-labelledby={labelledBy}
      aria-describedby={describedBy}
    >
      {choices.map((choice, index) => (
        <button
          key={choice}
          type="button"
          disabled={!enabled}
          aria-pressed={pv?.value?.number === index}
          data-sending={entry.text === choice}
          onClick={() => {
            // One put at a time: a second click would act on a state that the first hasn't changed
            // yet.
            if (entry.phase !== "sending") entry.sendAtOnce(choice, choice);
          }}
        >
          {choice}
        </button>
      ))}
    </span>
  );
}

function List({ pv, entry, enabled, choices, labelledBy, describedBy }: ChoicesProps) {
  const send = (): void => {
    if (enabled && entry.text !== undefined) entry.send(entry.text);
  };
  const shown = entry.text ?? pv?.value?.string ?? "";
  return (
    <form
      className="pvwire-entry"
      onSubmit={(event) => {
        returnToField(event);
        send();
      }}
      onReset={(event) => {
        returnToField(event);
        entry.takeBack();
      }}
    >
      <select
        className="pvwire-entry-text"
        aria-labelledby={labelledBy}
        aria-describedby={describedBy}
        aria-invalid={entry.outcome?.kind === "refused"}
        disabled={!enabled}
        value={shown}
        onChange={(event) => {
          // Not disabled while sending, because that would remove the focus.
          if (entry.phase !== "sending") entry.type(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape" && entry.phase === "typed") {
            entry.takeBack();
          } else if (event.key === "Enter" && entry.phase === "typed") {
            event.preventDefault();
            send();
          }
        }}
      >
        {/* A state without a label, or a label that is gone, is shown all the same. */}
        {!choices.includes(shown) && <option value={shown}>{shown}</option>}
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
      {entry.phase === "typed" && <EntryButtons enabled={enabled} />}
    </form>
  );
}
