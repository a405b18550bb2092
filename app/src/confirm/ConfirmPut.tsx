/** Asks before PVs are written that the operator names: what each has now, and what it would get. */

import { Fragment, useEffect, useRef, type ReactNode } from "react";
import { t, type PutValue, type PvData, type PvDisplay, type PvTime, type PvValue } from "pvwire";
import { usePv } from "pvwire/react";
import { useCondition } from "pvwire/widgets";

import { answer, type PutOf, type Question } from "./questions";
import "../style/confirm.css";

const SELECTION = `{
  value { string(units: true) }
  time { seconds nanoseconds }
  status { severity alarmStatus message }
  display { units choices }
  connection { state connected since lastHeard unresponsive readable reason }
}`;

interface Present extends Pick<PvData, "connection" | "status"> {
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly value: Pick<PvValue, "string"> | null;
  readonly display: Pick<PvDisplay, "units" | "choices"> | null;
}

/** More elements of an array than a person compares. */
const ELEMENTS = 6;

/** A value to write, as a person reads it. */
function newText(value: PutValue, display: Present["display"]): string {
  const { choices = null, units = "" } = display ?? {};
  if (typeof value === "number" && choices?.[value] !== undefined) return choices[value];
  if (typeof value === "string" && value === "") return t`an empty text`;
  if (typeof value !== "object") {
    return units === "" || choices !== null ? String(value) : `${String(value)} ${units}`;
  }
  const elements = [...(value as Iterable<number | bigint | string>)];
  const first = elements.slice(0, ELEMENTS).map(String).join(", ");
  if (elements.length <= ELEMENTS) return `[${first}]${units === "" ? "" : ` ${units}`}`;
  return t`[${first}, …] ${units} (${String(elements.length)} elements)`.replace("  ", " ");
}

export default function ConfirmPut({ question }: { readonly question: Question }): ReactNode {
  const { problem, puts } = question;
  const dialog = useRef<HTMLDialogElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    // Enter, which often ends the typing, confirms nothing.
    cancel.current?.focus();
  }, []);
  const decide = (isConfirmed: boolean): void => {
    // Gives the focus back to where it was.
    dialog.current?.close();
    answer(question, isConfirmed);
  };
  return (
    <dialog
      ref={dialog}
      className="confirm"
      role="alertdialog"
      aria-labelledby="confirm-title"
      aria-describedby="confirm-why"
      onClose={() => {
        answer(question, false);
      }}
    >
      <h2 id="confirm-title">
        {puts.length === 1 ? t`Write this value?` : t`Write ${String(puts.length)} PVs?`}
      </h2>
      <p id="confirm-why">
        {problem === ""
          ? t`The operator of the relay wants each write of this kind confirmed.`
          : t`Which writes need a confirmation can't be read from the relay (${problem}).`}
      </p>
      <div
        className="confirm-puts"
        tabIndex={puts.length > 1 ? 0 : undefined}
        role="group"
        aria-label={t`Values`}
      >
        <table>
          <thead>
            <tr>
              <th scope="col">{t`PV`}</th>
              <th scope="col">{t`Now`}</th>
              <th scope="col">{t`New`}</th>
            </tr>
          </thead>
          <tbody>
            {puts.map((put, at) => (
              <Row key={at} put={put} />
            ))}
          </tbody>
        </table>
      </div>
      <div className="choices">
        <button
          ref={cancel}
          type="button"
          onClick={() => {
            decide(false);
          }}
        >
          {t`Cancel`}
        </button>
        <button
          type="button"
          className="main"
          onClick={() => {
            decide(true);
          }}
        >
          {t`Write`}
        </button>
      </div>
    </dialog>
  );
}

function Row({ put: [name, value] }: { readonly put: PutOf }) {
  const pv = usePv<Present>(name, SELECTION);
  const { isPresent, text } = useCondition(pv, undefined, name);
  const present = pv?.value?.string;
  return (
    <tr data-put={name}>
      <th scope="row">
        {/* A line ends after a colon rather than in a word. */}
        {name.split(/(?<=:)/).map((part, at) => (
          <Fragment key={at}>
            {part}
            <wbr />
          </Fragment>
        ))}
      </th>
      <td data-part="now">{isPresent && present !== undefined ? present : text}</td>
      <td data-part="new">{newText(value, pv?.display ?? null)}</td>
    </tr>
  );
}
