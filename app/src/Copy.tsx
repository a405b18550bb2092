/** The PV as a link, a command, or code, each with a button that copies it. */

import { useState, type ReactNode } from "react";

import type { Shown } from "./PvPage";
import { copy, snippetsOf } from "./snippets";

interface CopyProps {
  readonly name: string;
  readonly id: string;
  readonly pv: Shown | undefined;
}

/** What the page shows of a PV, for a mail or a program. */
function jsonOf(name: string, pv: Shown | undefined): string {
  const value = pv?.value;
  return JSON.stringify({
    name,
    value: value?.text ?? value?.exact ?? value?.number ?? value?.string ?? null,
    units: pv?.display?.units ?? "",
    severity: pv?.status.severity ?? null,
    status: pv?.status.alarmStatus ?? null,
    time: pv?.time == null ? null : pv.time.seconds,
    connected: pv?.connection.connected ?? false,
  });
}

export function Copy({ id, name, pv }: CopyProps): ReactNode {
  const [outcome, setOutcome] = useState("");
  return (
    <section className="panel pv-copy" aria-labelledby="pv-copy">
      <h2 id="pv-copy">Use it elsewhere</h2>
      <ul className="snippets">
        {[
          ...snippetsOf(name, id, window.location.href),
          { title: "JSON", text: jsonOf(name, pv) },
        ].map(({ text, title }) => (
          <li key={title}>
            <button
              type="button"
              aria-label={`Copy: ${title}`}
              onClick={() => {
                void copy(text).then((copied) => {
                  setOutcome(copied ? `${title}: copied` : "The browser allows no copying");
                });
              }}
            >
              {title}
            </button>
            {/* Focusable, so that it can be scrolled without a mouse. */}
            <pre tabIndex={0} aria-label={title}>
              {text}
            </pre>
          </li>
        ))}
      </ul>
      <p className="note" role="status">
        {outcome}
      </p>
    </section>
  );
}
