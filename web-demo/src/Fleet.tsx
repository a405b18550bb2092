/** The relays of `make demo FLEET=3`: what each owns, which one this page uses, and a button that kills it. */

import type { ReactNode } from "react";
import { useConnection } from "pvwire/react";
import { formatCount } from "pvwire/widgets";

import { fetchJson, usePolled } from "./polled";

const POLL_MS = 1000;

interface RelayOfFleet {
  /** As in the demo's addresses: `relay1`. */
  readonly name: string;
  readonly state: "running" | "gone";
  /** Undefined until the relay has answered. */
  readonly instance?: string;
  readonly pvs?: number;
  readonly clients?: number;
}

interface Processes {
  readonly restartAfterSeconds: number;
  readonly fleet?: {
    readonly relays: readonly RelayOfFleet[];
    /** What the IOC says of its channels. */
    readonly ioc: { readonly pvs: number; readonly most: number } | null;
  };
}

export function Fleet(): ReactNode {
  const { data } = usePolled<Processes>("demo/processes", POLL_MS);
  const connection = useConnection();
  if (data?.fleet === undefined) return null;
  const { relays, ioc } = data.fleet;
  const used = connection.state === "open" ? connection.relayInstance : undefined;
  return (
    <section className="fleet panel" aria-label="Fleet">
      <h2>Fleet of {relays.length} relays</h2>
      <ul>
        {relays.map((relay) => (
          <Relay
            key={relay.name}
            relay={relay}
            isUsed={used !== undefined && relay.instance === used}
            restartAfterSeconds={data.restartAfterSeconds}
          />
        ))}
      </ul>
      <p className="fleet-ioc">{ofIoc(ioc)}</p>
    </section>
  );
}

interface RelayProps {
  readonly relay: RelayOfFleet;
  readonly isUsed: boolean;
  readonly restartAfterSeconds: number;
}

function Relay({ relay, isUsed, restartAfterSeconds }: RelayProps) {
  const { name, state, pvs, clients } = relay;
  const title = name.replace("relay", "Relay ");
  const isRunning = state === "running";
  return (
    <li data-relay={name} data-state={state} data-used={isUsed}>
      <p className="fleet-relay">
        <strong>{title}</strong>
        {isUsed && <span className="fleet-used">this page uses it</span>}
      </p>
      <p role="status">
        {isRunning
          ? `owns ${counted(pvs, "PV")}, has ${counted(clients, "client")}`
          : `killed, starts again after ${String(restartAfterSeconds)} s`}
      </p>
      <button
        type="button"
        disabled={!isRunning}
        onClick={() => {
          const request = { method: "POST", headers: { "X-Pvwire-Demo": "yes" } };
          void fetchJson(`demo/${name}/kill`, request);
        }}
      >
        Kill {title.toLowerCase()}
      </button>
    </li>
  );
}

function counted(count: number | undefined, of: string): string {
  if (count === undefined) return `– ${of}s`;
  return `${formatCount(count)} ${count === 1 ? of : `${of}s`}`;
}

function ofIoc(ioc: { readonly pvs: number; readonly most: number } | null): string {
  if (ioc === null) return "The IOC has not reported how many channels it serves (casr).";
  const each = ioc.most === 1 ? "one channel each" : `up to ${formatCount(ioc.most)} channels each`;
  return `The IOC serves ${counted(ioc.pvs, "PV")}, ${each} (casr), however many relays and pages there are.`;
}
