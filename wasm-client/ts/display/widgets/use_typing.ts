/** The text of a field while it is typed. */

import { useRef, useState } from "react";

import type { PutResult } from "../../types.js";

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
export function useTyping(shown: string, canHold: boolean): Typing {
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
