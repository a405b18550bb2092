/** Texts that several pages have. */

import type { ReactNode } from "react";
import { t } from "pvwire";

/** `1 PV`, `2 PVs`. */
export const pvsText = (count: number): string => (count === 1 ? t`1 PV` : t`${count} PVs`);

/** What stands between two `|` is to be typed as it stands. */
export const typed = (text: string): ReactNode =>
  text.split("|").map((part, at) => (at % 2 === 0 ? part : <code key={at}>{part}</code>));
