/** The PVs that an operator can set on the page, and their controls. */

export interface SetPointSpec {
  /** The PV's name without the prefix. */
  readonly pv: string;
  readonly label: string;
  /** A slider writes while it is moved and a choice of few at once; all others wait for Enter. */
  readonly control: "number" | "slider" | "choice" | "text";
}

export interface SetPointGroup {
  readonly title: string;
  readonly setPoints: readonly SetPointSpec[];
}

export const SET_POINTS: readonly SetPointGroup[] = [
  {
    title: "Set points",
    setPoints: [
      { pv: "RF:VOLTAGE:SET", label: "RF voltage", control: "number" },
      { pv: "MAG:CORR4:SET", label: "Corrector 4 current", control: "slider" },
      { pv: "RING:SHOTS:SET", label: "Shots per injection", control: "number" },
    ],
  },
  {
    title: "Modes and message",
    setPoints: [
      { pv: "FB:ORBIT:SET", label: "Orbit feedback", control: "choice" },
      { pv: "OP:MODE:SET", label: "Requested mode", control: "choice" },
      { pv: "OP:MESSAGE", label: "Message", control: "text" },
    ],
  },
  {
    title: "Refused, and by whom",
    setPoints: [
      { pv: "RF:PHASE:SET", label: "RF phase, locked in its record", control: "number" },
      { pv: "ID:GAP:SET", label: "Undulator gap, without access", control: "number" },
      { pv: "MAG:DIPOLE:LIMIT", label: "Dipole 7 limit, without a rule", control: "number" },
    ],
  },
];
