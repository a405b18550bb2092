/** The PVs of the machine panel and their labels, and the PVs that an operator can set, with their controls. */

export interface ReadbackSpec {
  /** The PV's name without the prefix. */
  readonly pv: string;
  readonly label: string;
  /** For quantities that span decades: shown as `3.2e-9` where PREC digits would be zeros. */
  readonly notation?: "exponent";
}

export interface ReadbackGroup {
  readonly title: string;
  readonly readbacks: readonly ReadbackSpec[];
}

export const MACHINE: readonly ReadbackGroup[] = [
  {
    title: "Ring and operation",
    readbacks: [
      { pv: "RING:CURRENT", label: "Stored beam current" },
      { pv: "RING:LIFETIME", label: "Beam lifetime" },
      { pv: "RING:MODE", label: "Operating mode" },
      { pv: "RING:INJECTIONS", label: "Injections" },
      { pv: "RING:TUNE", label: "Horizontal tune" },
      { pv: "OP:MESSAGE", label: "Message" },
    ],
  },
  {
    title: "Radio frequency, magnets, insertion device",
    readbacks: [
      { pv: "RF:VOLTAGE:SET", label: "RF voltage set point" },
      { pv: "RF:VOLTAGE", label: "RF voltage" },
      { pv: "MAG:DIPOLE:CURRENT", label: "Dipole 7 current" },
      { pv: "MAG:DIPOLE:TEMP", label: "Dipole 7 temperature" },
      { pv: "MAG:DIPOLE:FLOW", label: "Dipole 7 water flow" },
      { pv: "ID:GAP", label: "Undulator gap" },
    ],
  },
  {
    title: "Vacuum and cryogenics",
    readbacks: [
      { pv: "VAC:PRESSURE", label: "Sector 3 pressure", notation: "exponent" },
      { pv: "VAC:VALVE", label: "Sector 3 gate valve" },
      { pv: "FE:SHUTTER", label: "Front-end shutter" },
      { pv: "CRYO:LEVEL", label: "Helium level" },
      { pv: "CRYO:TEMP", label: "Cavity temperature" },
      { pv: "NOT_THERE", label: "A name no IOC has" },
    ],
  },
];

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
