/** Asks before values are written: how many, and which ones will be refused. */

import { useEffect, useRef, type ReactNode } from "react";
import { t } from "pvwire";

import { pvsText } from "../texts";
import type { Outcome } from "./restore";

/** More refusals than a person reads here; all are in the table after a dry run. */
const NAMED = 12;

interface ConfirmRestoreProps {
  readonly forecast: ReadonlyMap<string, Outcome>;
  readonly cancel: () => void;
  readonly write: () => void;
}

export function ConfirmRestore({ cancel, forecast, write }: ConfirmRestoreProps): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    // Enter, which may have opened it and still be held, writes nothing.
    leave.current?.focus();
  }, []);
  const all = [...forecast];
  const refused = all.filter(([, { kind }]) => kind === "refused");
  const unsure = all.filter(([, { kind }]) => kind === "unsure").length;
  const count = all.length - refused.length;
  return (
    <dialog ref={dialog} aria-labelledby="restore-title" onClose={cancel}>
      <h2 id="restore-title">{t`Write ${count} of ${pvsText(all.length)}?`}</h2>
      {unsure > 0 && (
        <p>{t`For ${unsure} of them only writing shows whether the relay and the IOC allow it.`}</p>
      )}
      {refused.length > 0 && (
        <>
          <p>{t`${refused.length} will be refused:`}</p>
          <ul className="refused">
            {refused.slice(0, NAMED).map(([name, { text }]) => (
              <li key={name}>
                <b>{name}</b> {text}
              </li>
            ))}
          </ul>
          {refused.length > NAMED && (
            <p>{t`… and ${refused.length - NAMED} more: see the dry run.`}</p>
          )}
        </>
      )}
      {count === 0 && <p>{t`Nothing can be written: all of them will be refused.`}</p>}
      <div className="choices">
        <button ref={leave} type="button" onClick={() => dialog.current?.close()}>
          {t`Cancel`}
        </button>
        <button type="button" className="main" disabled={count === 0} onClick={write}>
          {t`Write`}
        </button>
      </div>
    </dialog>
  );
}
