/** The widget of `<pv-input>`, which is loaded with the first of them. */

import type { ReactNode } from "react";

import setPoint from "../widgets/css/set_point.css?inline";
import { SetPoint, type SetPointProps } from "../widgets/SetPoint.js";
import { given, type Attributes } from "./pv_element.js";
import { addStyles } from "./style_sheet.js";

addStyles({ input: setPoint });

type Control = NonNullable<SetPointProps["control"]>;
const CONTROLS: readonly unknown[] = ["number", "slider", "choice", "text"] satisfies Control[];

/** A set point. */
export function inputWidget(attributes: Attributes): ReactNode {
  const control = attributes.text("control");
  const options = given({
    control: CONTROLS.includes(control) ? (control as Control) : undefined,
    allowNonFinite: attributes.text("allow-non-finite") !== undefined,
    staleAfterMs: attributes.number("stale-after-ms"),
  });
  return <SetPoint {...attributes.pv} {...options} />;
}
