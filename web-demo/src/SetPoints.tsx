/** The set points in groups: panels of the machine's grid. */

import type { ReactNode } from "react";
import { SetPoint } from "pvwire/widgets";

import { SET_POINTS } from "./set_points";

export function SetPoints({ prefix }: { readonly prefix: string }): ReactNode {
  return SET_POINTS.map(({ setPoints, title }) => (
    <section className="panel" key={title} aria-label={title}>
      <h2>{title}</h2>
      {setPoints.map(({ pv, ...spec }) => (
        <SetPoint key={pv} name={`${prefix}:${pv}`} {...spec} />
      ))}
    </section>
  ));
}
