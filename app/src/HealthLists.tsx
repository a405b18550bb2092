/** What the relay serves, as lists: its clients, the servers of its PVs, and the PVs. */

import { useState, type ReactNode } from "react";
import { t } from "pvwire";
import { formatCount, formatOneDigit } from "pvwire/widgets";

import { pvsText } from "./texts";
import type { Read } from "./HealthPage";
import { elsewhere, hrefOf, type Route } from "./route";
import type { Status } from "./status";
import { ageText } from "./times";

interface HealthClientsProps {
  readonly clients: NonNullable<Status["clientList"]>;
  /** Number of all clients: the relay lists those that were sent most. */
  readonly all: number;
  readonly now: Read | undefined;
  readonly before: Read | undefined;
}

/** The relay's clients, those that are behind first and then those that are sent most. */
export function HealthClients({ all, before, clients, now }: HealthClientsProps): ReactNode {
  const seconds = ((now?.atMs ?? 0) - (before?.atMs ?? 0)) / 1000;
  const bytesBefore = new Map(
    before?.status?.clientList?.map(({ address, bytes }) => [address, bytes]),
  );
  const rows = clients
    .map((client) => {
      const last = bytesBefore.get(client.address);
      const isKnown = last !== undefined && last <= client.bytes && seconds > 0;
      return { ...client, rate: isKnown ? (client.bytes - last) / seconds / 1000 : undefined };
    })
    .sort((a, b) => Number(a.inStep) - Number(b.inStep) || (b.rate ?? 0) - (a.rate ?? 0));
  const late = rows.filter(({ inStep }) => !inStep).length;
  return (
    <section className="panel" aria-labelledby="health-clients">
      <h2 id="health-clients">{t`Clients`}</h2>
      <p className="note" role="status">
        {all === 1 ? t`1 client` : t`${all} clients`},{" "}
        {late === 0 ? t`all in step` : t`${late} behind`}
        {rows.length < all && t`; the ${String(rows.length)} that were sent most are listed`}
      </p>
      <div
        className="table-room health-room health-clients"
        role="region"
        aria-label={t`Addresses`}
        tabIndex={0}
      >
        <table>
          <thead>
            <tr>
              <th scope="col" data-column="name">
                {t`Address`}
              </th>
              <th scope="col">{t`User`}</th>
              <th scope="col">{t`State`}</th>
              <th scope="col">{t`Connected for`}</th>
              <th scope="col">{"kB/s"}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ address, inStep, rate, seconds: connected, user }) => (
              <tr key={address} data-state={inStep ? "in step" : "behind"}>
                <td data-column="name">{address}</td>
                <td>{user ?? "–"}</td>
                <td>{inStep ? t`in step` : t`behind`}</td>
                <td>{ageText(1000 * connected)}</td>
                <td>{rate === undefined ? "–" : formatOneDigit(rate)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Servers({ status }: { readonly status: Status }): ReactNode {
  if (status.servers.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="health-servers">
      <h2 id="health-servers">{t`Servers`}</h2>
      <ul className="alarm-list">
        {status.servers.map(({ name, pvs }) => (
          <li key={name}>
            {name} <span className="alarm-since">{pvsText(pvs)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const STATES = ["Disconnected", "NotFound", "Connecting", "Connected"];

const rankOf = (state: string): number => STATES.indexOf(state);
const textOf = (state: string): string =>
  [t`disconnected`, t`not found`, t`searched`, t`connected`][rankOf(state)] ?? state;

interface HealthPvsProps {
  readonly route: Route;
  readonly status: Status;
}

/** The relay's PVs by state, the worst first, with their servers. */
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
      <h2 id="health-pvs">{t`PVs`}</h2>
      <div className="filters">
        <input
          type="search"
          aria-label={t`Parts of a name, state or server`}
          placeholder={t`Name, state or server`}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
          }}
        />
        <span className="note" role="status">
          {t`${rows.length} of ${pvsText(all)}`}
          {status.list.length < all && t`; the relay lists ${String(status.list.length)} here`}
        </span>
      </div>
      <div className="table-room health-room" role="region" aria-label={t`Rows`} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col" data-column="name">
                {t`PV`}
              </th>
              <th scope="col">{t`State`}</th>
              <th scope="col">{t`Clients`}</th>
              <th scope="col">{t`Server`}</th>
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
