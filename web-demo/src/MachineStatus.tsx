/** What does the machine do? Its readbacks, in groups. */

import type { ReactNode } from "react";
import { MACHINE } from "./machine";
import { Readback } from "pvwire/widgets";

export function MachineStatus({ prefix }: { readonly prefix: string }): ReactNode {
  return (
    <section className="machine" aria-label="Machine status">
      {MACHINE.map((group) => (
        <section className="panel" key={group.title} aria-label={group.title}>
          <h2>{group.title}</h2>
          {group.readbacks.map(({ pv, ...spec }) => (
            <Readback key={pv} name={`${prefix}:${pv}`} {...spec} />
          ))}
        </section>
      ))}
    </section>
  );
}
