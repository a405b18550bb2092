/** Buttons of `make demo` that kill or pause the IOC and the relay. */

import { useState, type ReactNode } from "react";

import { fetchJson, usePolled } from "./polled";

const POLL_MS = 1000;

interface Processes {
  readonly ioc: "running" | "paused" | "gone";
  /** Undefined in a fleet, whose relays have separate buttons. */
  readonly relay?: "running" | "gone";
  readonly restartAfterSeconds: number;
}

export function BreakThings(): ReactNode {
  const { data } = usePolled<Processes>("demo/processes", POLL_MS);
  const [answered, setAnswered] = useState<Processes>();
  const [last, setLast] = useState(data);
  if (data !== last) {
    // The state from the last button's answer is older now.
    setLast(data);
    setAnswered(undefined);
  }
  const now = data === undefined ? undefined : (answered ?? data);
  if (now === undefined) return null;
  const act = (what: string): void => {
    const request = { method: "POST", headers: { "X-Pvwire-Demo": "yes" } };
    void fetchJson<Processes>(`demo/${what}`, request).then(setAnswered);
  };
  const { ioc, relay, restartAfterSeconds } = now;
  return (
    <section className="break-things" aria-label="Break things">
      <h2>Break things</h2>
      <button
        type="button"
        disabled={ioc === "gone"}
        onClick={() => {
          act("ioc/kill");
        }}
      >
        Kill the IOC
      </button>
      <button
        type="button"
        disabled={ioc === "gone"}
        onClick={() => {
          act(ioc === "paused" ? "ioc/resume" : "ioc/pause");
        }}
      >
        {ioc === "paused" ? "Resume the IOC" : "Pause the IOC"}
      </button>
      {relay !== undefined && (
        <button
          type="button"
          disabled={relay === "gone"}
          onClick={() => {
            act("relay/kill");
          }}
        >
          Kill the relay
        </button>
      )}
      <p role="status">
        {sentence("IOC", ioc, restartAfterSeconds)}{" "}
        {relay !== undefined && sentence("Relay", relay, restartAfterSeconds)}
      </p>
    </section>
  );
}

function sentence(name: string, state: Processes["ioc"], restartAfterSeconds: number): string {
  if (state === "gone")
    return `${name}: killed, starts again ${String(restartAfterSeconds)} s later.`;
  if (state === "paused") return `${name}: paused (simulated hang).`;
  return `${name}: running.`;
}
