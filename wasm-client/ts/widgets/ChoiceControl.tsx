/** Sets one of a PV's choices: a few as buttons that write at once, many as a list with Send. */

import type { ReactNode } from "react";

import { t } from "../texts.js";
import type { ControlProps } from "./control_props.js";
import { EntryButtons, returnToField } from "./TextControl.js";

const MOST_BUTTONS = 4;

export function ChoiceControl(props: ControlProps): ReactNode {
  const choices = props.pv?.display?.choices ?? [];
  // Buttons have no place for what is typed: it stays in the list until it is sent or taken back.
  return choices.length > MOST_BUTTONS || props.entry.phase === "typed" ? (
    <List {...props} choices={choices} />
  ) : (
    <Buttons {...props} choices={choices} />
  );
}

interface ChoicesProps extends ControlProps {
  readonly choices: readonly string[];
}

/** What is shown of a choice: the label, or the index of a choice without one. */
export function choiceText(choices: readonly string[], index: number): string {
  const { [index]: label = "" } = choices;
  return label === "" ? String(index) : label;
}

/**
 * Why an index isn't sent: it no longer has the label that was shown. Labels aren't sent, because
 * several choices may have the same one.
 */
function problemOf(newest: readonly string[], text: string, index: number | undefined) {
  if (index === undefined) return t`${text} is not one of the choices; nothing was sent`;
  const now = choiceText(newest, index);
  if (now === text && index < newest.length) return undefined;
  const change = index < newest.length ? t`is ${now} now` : t`no longer exists`;
  return t`the choice ${text} ${change}; nothing was sent`;
}

/**
 * What is sent of a choice: its label, so that the relay refuses one that was renamed meanwhile; the
 * index where the label says nothing, or could be another choice's.
 */
function valueOf(newest: readonly string[], index: number): string | number {
  const { [index]: label = "" } = newest;
  const isPlain = label !== "" && Number.isNaN(Number(label));
  return isPlain && newest.indexOf(label) === newest.lastIndexOf(label) ? label : index;
}

/** Buttons instead of radio buttons, which would write every choice that the arrow keys pass. */
function Buttons(props: ChoicesProps) {
  const { pv, entry, enabled, choices, newestChoices, labelledBy, describedBy } = props;
  const number = pv?.value?.number ?? undefined;
  const isUnlabelled = number !== undefined && !(number in choices);
  return (
    <span
      className="pvwire-choice-buttons"
      role="group"
      aria-labelledby={labelledBy}
      aria-describedby={describedBy}
    >
      {choices.map((choice, index) => {
        const text = choiceText(choices, index);
        return (
          <button
            key={index}
            type="button"
            disabled={!enabled}
            title={choice === "" ? t`Index ${text}, without a label` : undefined}
            aria-pressed={number === index}
            data-sending={entry.index === index}
            onClick={() => {
              // One put at a time: a second click would act on a state that the first hasn't
              // changed yet.
              if (entry.phase === "sending") return;
              const newest = newestChoices();
              const problem = problemOf(newest, text, index);
              if (problem === undefined) entry.choose(text, index, valueOf(newest, index));
              else entry.refuse(problem);
            }}
          >
            {text}
          </button>
        );
      })}
      {isUnlabelled && (
        <button type="button" disabled aria-pressed={true} title={t`The PV's value has no label`}>
          {pv?.value?.string}
        </button>
      )}
    </span>
  );
}

function List(props: ChoicesProps) {
  const { pv, entry, enabled, choices, newestChoices, labelledBy, describedBy } = props;
  const { index = pv?.value?.number ?? undefined, text } = entry;
  const send = (): void => {
    if (!enabled || entry.phase !== "typed") return;
    const newest = newestChoices();
    const problem = problemOf(newest, shownText, entry.index);
    if (problem === undefined) entry.send(valueOf(newest, entry.index as number));
    else entry.refuse(problem);
  };
  const optionOf = (at: number): string => `${String(at)} ${choiceText(choices, at)}`;
  const shownText = text ?? (index === undefined ? "" : choiceText(choices, index));
  const shown = `${String(index)} ${shownText}`;
  const isGone = index === undefined || !(index in choices) || shown !== optionOf(index);
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
        onChange={({ currentTarget }) => {
          const chosen = parseInt(currentTarget.value, 10);
          // Not disabled while sending, because that would remove the focus.
          if (entry.phase !== "sending") entry.type(choiceText(choices, chosen), chosen);
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
        {/* An index without a label, or a label that is gone, is shown all the same. */}
        {isGone && <option value={shown}>{shownText}</option>}
        {choices.map((_, at) => (
          <option key={at} value={optionOf(at)}>
            {choiceText(choices, at)}
          </option>
        ))}
      </select>
      {entry.phase === "typed" && <EntryButtons enabled={enabled} />}
    </form>
  );
}
