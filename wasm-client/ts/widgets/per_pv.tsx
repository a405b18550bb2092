/** Widgets keep nothing of one PV when they are given the name of another. */

import type { ReactNode } from "react";

import { usePvKey } from "../react/provider.js";

/**
 * Mounts a widget again for another name or another client. What was typed, sent, drawn or decoded
 * for one PV is then gone, and can't be shown for, or sent to, another.
 */
export function perPv<Props extends { readonly name: string }>(
  Widget: (props: Props) => ReactNode,
): (props: Props) => ReactNode {
  return function PerPv(props) {
    return <Widget key={usePvKey(props.name)} {...props} />;
  };
}
