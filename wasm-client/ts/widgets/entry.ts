/** The state of a set point's input: typed, being written, or refused. */

import { useEffect, useRef, useState } from "react";
import type { PutOptions, PutValue } from "../types.js";
import { usePut } from "../react/index.js";

/** A written value stays shown until the PV's own update arrives, at most for this time. */
const SETTLE_MS = 1000;

export type Outcome =
  | { readonly kind: "written"; readonly atMs: number }
  /** Written, but the PV's value differs. */
  | { readonly kind: "changed"; readonly message: string }
  /** Certainly not written. */
  | { readonly kind: "refused"; readonly message: string }
  /** It is not known whether the value was written. */
  | { readonly kind: "unknown"; readonly message: string };

export interface Entry {
  /**
   * `live`: the PV's value is shown. `typed`: nothing is sent before `send`. `sending`: the outcome
   * is pending. `settling`: written, but the PV's update hasn't arrived.
   */
  readonly phase: "live" | "typed" | "sending" | "settling";
  /** Set in every phase but `live`. */
  readonly text: string | undefined;
  /** The index of the choice whose label is `text`. */
  readonly index: number | undefined;
  /** Outcome of the last put; `undefined` after typing. */
  readonly outcome: Outcome | undefined;
  readonly type: (text: string, index?: number) => void;
  readonly takeBack: () => void;
  /** Rejects invalid input without sending it. */
  readonly refuse: (message: string) => void;
  /** Sends the typed text, which stays if it is refused. */
  readonly send: (value: PutValue) => void;
  /** Sends a choice without typing; the PV's value is shown again if it is refused. */
  readonly choose: (text: string, index: number, value: PutValue) => void;
  /**
   * Sends one of many positions; if they arrive faster than they are written, only the last one is
   * sent. The position stays shown for a moment: updates from earlier positions must not move the
   * slider while it is dragged.
   */
  readonly slide: (text: string, value: number) => void;
}

/** What is typed or sent: a text, and for a choice its index. */
interface Draft {
  readonly text: string;
  readonly index?: number | undefined;
}

interface State extends Partial<Draft> {
  readonly phase: Entry["phase"];
  readonly outcome?: Outcome;
  /** The PV's time stamp when the put was sent; an update with a later one results from the put. */
  readonly stamp?: string | undefined;
}

const LIVE: State = { phase: "live" };

/** `stamp` is the time stamp of the PV's current value. */
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
    draft: Draft,
    value: PutValue,
    refused: State,
    options: PutOptions = {},
  ): Promise<void> => {
    lastSent.current += 1;
    const own = lastSent.current;
    setState({ phase: "sending", ...draft });
    const result = await put(value, options);
    // Only the last of a slider's puts determines what is shown.
    if (own !== lastSent.current) return;
    if (result.ok && result.message !== undefined) {
      // Shows the PV's value again: an update that settles this may never arrive.
      setState({ phase: "live", outcome: { kind: "changed", message: result.message } });
    } else if (result.ok) {
      const outcome: Outcome = { kind: "written", atMs: Date.now() };
      const before = options.coalesce === true ? undefined : stamp;
      setState({ phase: "settling", ...draft, outcome, stamp: before });
    } else {
      const kind = result.error.mayBeWritten ? "unknown" : "refused";
      setState({ ...refused, outcome: { kind, message: result.error.message } });
    }
  };

  return {
    phase: state.phase,
    text: state.text,
    index: state.index,
    outcome: state.outcome,
    type: (text, index) => {
      setState({ phase: "typed", text, index });
    },
    takeBack: () => {
      if (state.phase !== "sending") setState(LIVE);
    },
    refuse: (message) => {
      setState({ ...state, outcome: { kind: "refused", message } });
    },
    send: (value) => {
      const { index, phase, text } = state;
      if (phase !== "typed" || text === undefined) return;
      void write({ text, index }, value, { phase, text, index });
    },
    choose: (text, index, value) => {
      void write({ text, index }, value, LIVE);
    },
    slide: (text, value) => {
      void write({ text }, value, LIVE, { coalesce: true });
    },
  };
}

function isSettled({ phase, stamp }: State, now: string | undefined): boolean {
  return phase === "settling" && stamp !== undefined && stamp !== now;
}

function settled(state: State): State {
  return state.outcome === undefined ? LIVE : { phase: "live", outcome: state.outcome };
}
