/** The keys of the app, shown by `?`. */

import { useEffect, useRef, type ReactNode } from "react";

const KEYS = [
  ["/", "Type a PV name"],
  ["↓ ↑ Enter", "Choose one of the offered names"],
  ["Esc", "Close the offered names, or this list"],
  ["Page ↓, Page ↑", "Move in the table"],
  ["Alt ←, Alt →", "Back and forward"],
  ["?", "Show this list"],
] as const;

export function Keys({ close }: { readonly close: () => void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={close}>
      <h2 id="keys-title">Keys</h2>
      <dl className="keys">
        {KEYS.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current?.close()}>
        Close
      </button>
    </dialog>
  );
}
