/** What can be set? In groups, as the readbacks above. */

import type { ReactNode } from "react";

import { SET_POINTS } from "./set_points";
import { SetPoint } from "pvwire/widgets";

export function SetPoints({ prefix }: { readonly prefix: string }): ReactNode {
  return (
    <section className="machine" aria-label="What can be set">
      {SET_POINTS.map((group) => (
        <section className="panel" key={group.title} aria-label={group.title}>
          <h2>{group.title}</h2>
          {group.setPoints.map(({ pv, ...spec }) => (
            <SetPoint key={pv} name={`${prefix}:${pv}`} {...spec} />
          ))}
        </section>
      ))}
    </section>
  );
}
