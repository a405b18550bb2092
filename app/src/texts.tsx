/** Counts with their noun. */

/** `1 PV`, `2 PVs`. */
export const pvsText = (count: number): string => counted(count, "PV");

/** With the noun in the plural, except one. */
export const counted = (count: number, noun: string): string =>
  `${String(count)} ${noun}${count === 1 ? "" : "s"}`;
