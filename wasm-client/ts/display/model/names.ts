/** PV names as displays write them, as names of this package's client. */

/** A name for the client, or the reason why it has no such name. */
export type PvName =
  | { readonly name: string; readonly problem?: undefined }
  | { readonly name?: undefined; readonly problem: string };

/** Sources that browsers and relays don't have. */
const ELSEWHERE = /^(?:tango|mqtt|acsys|opva|jackie|pvws|archive|replay|sys(?!:\/\/time)):\/\//i;

/** The client's name for a display's; `undefined` for an empty one. */
export function clientName(written: string): PvName | undefined {
  const name = written.trim();
  if (name === "") return undefined;
  if (/\$[({]/.test(name)) return { problem: `${name}: a macro has no value` };
  if (ELSEWHERE.test(name)) return { problem: `${name}: this kind of PV isn't available here` };
  // Phoebus's simulated PVs, which have other values than pvwire's own of the same name.
  if (name.startsWith("sim://")) return { name: `psim://${name.slice(6)}` };
  if (name.startsWith("eq://")) return { name: `=${name.slice(5)}` };
  return { name };
}
