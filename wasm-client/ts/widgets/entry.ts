/** The state of a set point's input: typed, being written, or refused. */

import { useEffect, useRef, useState } from "react";
import type { PutOptions, PutValue } from "../types.js";
import { usePut } from "../react/index.js";

/** What was written stays until the PV's own update is here, or for so long if none comes. */
const SETTLE_MS = 1000;

export type Outcome =
  | { readonly kind: "written"; readonly atMs: number }
  /** Written, but the PV holds something else. */
  | { readonly kind: "changed"; readonly message: string }
  /** Surely not written. */
  | { readonly kind: "refused"; readonly message: string }
  /** It is not known whether the value was written. */
  | { readonly kind: "unknown"; readonly message: string };

export interface Entry {
  /**
   * `live`: the PV's value is shown. `typed`: nothing is sent before `send`. `sending`: no outcome
   * yet. `settling`: written, but the update that says so isn't here.
   */
  readonly phase: "live" | "typed" | "sending" | "settling";
  /** In every phase but `live`. */
  readonly text: string | undefined;
  /** Of the last put; none since something was typed. */
  readonly outcome: Outcome | undefined;
  readonly type: (text: string) => void;
  readonly takeBack: () => void;
  /** What can't be meant isn't sent. */
  readonly refuse: (message: string) => void;
  /** Sends what was typed; it stays there when it is refused. */
  readonly send: (value: PutValue) => void;
  /** Sends without being typed before; the PV's value is shown again when it is refused. */
  readonly sendAtOnce: (text: string, value: PutValue) => void;
  /**
   * Sends one of many positions; of those that come faster than they are written only the last.
   * The position stays for a moment: updates of those before must not move it under the hand.
   */
  readonly slide: (text: string, value: number) => void;
}

interface State {
  readonly phase: Entry["phase"];
  readonly text?: string;
  readonly outcome?: Outcome;
  /** The PV's time stamp when it was sent; a later one is its own update's. */
  readonly stamp?: string | undefined;
}

const LIVE: State = { phase: "live" };

/** `stamp` is the time stamp of the PV's present value. */
export function useEntry(name: string, stamp: string | undefined): Entry {
  const { put } = usePut(name);
  const [kept, setState] = useState(LIVE);
  const lastSent = useRef(0);
  const state = isSettled(kept, stamp) ? settled(kept) : kept;

  useEffect(() => {
    if (kept.phase !== "settling") return;
    const timer = window.setTimeout(() => {
      setState(settled);
    }, SETTLE_MS);
    return () => {
      window.clearTimeout(timer);
    };
  }, [kept]);

  const write = async (
    text: string,
    value: PutValue,
    refused: State,
    options: PutOptions = {},
  ): Promise<void> => {
    lastSent.current += 1;
    const own = lastSent.current;
    setState({ phase: "sending", text });
    const result = await put(value, options);
    // Of a slider's puts only the last says what is to be seen.
    if (own !== lastSent.current) return;
    if (result.ok && result.message !== undefined) {
      // The PV's value is shown again: no update need come that settles this.
      setState({ phase: "live", outcome: { kind: "changed", message: result.message } });
    } else if (result.ok) {
      const outcome: Outcome = { kind: "written", atMs: Date.now() };
      const before = options.coalesce === true ? undefined : stamp;
      setState({ phase: "settling", text, outcome, stamp: before });
    } else {
      const kind = result.error.mayBeWritten ? "unknown" : "refused";
      setState({ ...refused, outcome: { kind, message: result.error.message } });
    }
  };

  return {
    phase: state.phase,
    text: state.text,
    outcome: state.outcome,
    type: (text) => {
      setState({ phase: "typed", text });
    },
    takeBack: () => {
      setState(LIVE);
    },
    refuse: (message) => {
      setState({ ...state, outcome: { kind: "refused", message } });
    },
    send: (value) => {
      if (state.phase !== "typed" || state.text === undefined) return;
      void write(state.text, value, { phase: "typed", text: state.text });
    },
    sendAtOnce: (text, value) => {
      void write(text, value, LIVE);
    },
    slide: (text, value) => {
      void write(text, value, LIVE, { coalesce: true });
    },
  };
}

function isSettled({ phase, stamp }: State, now: string | undefined): boolean {
  return phase === "settling" && stamp !== undefined && stamp !== now;
}

function settled(state: State): State {
  return state.outcome === undefined ? LIVE : { phase: "live", outcome: state.outcome };
}
