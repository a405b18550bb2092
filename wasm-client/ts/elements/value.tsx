/** The widget of `<pv-value>`. */

import type { ReactNode } from "react";

import pv from "../widgets/css/pv.css?inline";
import theme from "../widgets/css/theme.css?inline";
import { Readback } from "../widgets/Readback.js";
import { given, type Attributes } from "./pv_element.js";
import { addStyles } from "./style_sheet.js";

const ELEMENTS = `:is(pv-value,pv-input,pv-plot):not([hidden]){display:block}
:is(pv-value,pv-input)+:is(pv-value,pv-input,pv-plot)>*{border-top:1px solid var(--pvwire-row-line)}`;

addStyles({ base: [ELEMENTS, theme, pv].join("\n") });

/** A readback. */
export function valueWidget(attributes: Attributes): ReactNode {
  const isExponent = attributes.text("notation") === "exponent";
  const options = given({
    notation: isExponent ? ("exponent" as const) : undefined,
    staleAfterMs: attributes.number("stale-after-ms"),
  });
  return <Readback {...attributes.pv} {...options} />;
}
