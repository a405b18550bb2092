/** The relay's PVs by state, the worst first, with their servers. */

import { useState, type ReactNode } from "react";
import { formatCount } from "pvwire/widgets";

import { pvsText } from "./counts";
import { elsewhere, hrefOf, type Route } from "./route";
import type { Status } from "./status";

const STATES = [
  ["Disconnected", "disconnected"],
  ["NotFound", "not found"],
  ["Connecting", "searched"],
  ["Connected", "connected"],
] as const;

const rankOf = (state: string): number => STATES.findIndex(([each]) => each === state);
const textOf = (state: string): string => STATES[rankOf(state)]?.[1] ?? state;

interface HealthPvsProps {
  readonly route: Route;
  readonly status: Status;
}

export function HealthPvs({ route, status }: HealthPvsProps): ReactNode {
  const [text, setText] = useState("");
  const { connected, connecting, disconnected, notFound } = status.pvs;
  const all = connected + connecting + disconnected + notFound;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = status.list
    .filter(({ name, server, state }) => {
      const row = `${name} ${textOf(state)} ${server ?? ""}`.toLowerCase();
      return words.every((word) => row.includes(word));
    })
    .sort((a, b) => rankOf(a.state) - rankOf(b.state) || (a.name < b.name ? -1 : 1));
  if (all === 0) return null;
  return (
    <section className="panel table-panel" aria-labelledby="health-pvs">
      <h2 id="health-pvs">PVs</h2>
      <div className="filters">
        <input
          type="search"
          aria-label="Parts of a name, state or server"
          placeholder="Name, state or server"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
          }}
        />
        <span className="note" role="status">
          {rows.length} of {pvsText(all)}
          {status.list.length < all && `; the relay lists ${String(status.list.length)} here`}
        </span>
      </div>
      <div className="table-room health-room" role="region" aria-label="Rows" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col" data-column="name">
                PV
              </th>
              <th scope="col">State</th>
              <th scope="col">Clients</th>
              <th scope="col">Server</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ clients, name, server, state }) => (
              <tr key={name} data-pv={name} data-state={state}>
                <td data-column="name">
                  <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
                </td>
                <td>{textOf(state)}</td>
                <td>{formatCount(clients)}</td>
                <td>{server ?? "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
