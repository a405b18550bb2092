/** The record of a PV name. */

/** The record of a name, which may be one of its fields. */
export const recordOf = (name: string): string => name.replace(/\.[A-Z][A-Z0-9]*\$?$/, "");
