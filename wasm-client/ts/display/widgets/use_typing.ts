/** The text of a field while it is typed. */

import { useState } from "react";

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
  readonly leave: () => void;
}

/** `shown` is the PV's value; without a present one, or while nothing can be written, nothing is held. */
export function useTyping(shown: string, canHold: boolean): Typing {
  const [typed, setTyped] = useState<string>();
  const [held, setHeld] = useState<string>();
  const text = typed ?? (canHold ? held : undefined) ?? shown;
  return {
    text,
    typed,
    differs: typed !== undefined || text !== shown,
    type: setTyped,
    takeBack: () => {
      setTyped(undefined);
      setHeld(undefined);
    },
    sent: (sent) => {
      setTyped((now) => (now === sent ? undefined : now));
      setHeld(undefined);
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
