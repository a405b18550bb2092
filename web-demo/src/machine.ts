/** The PVs of the machine panel and their labels. */

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
