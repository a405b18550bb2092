/** 1,000 PVs at 10 Hz. Each has a cell that renders alone. */

import { memo, useEffect, useMemo, useState, type ReactNode } from "react";
import type { PvClient, PvConnection, PvStatus, PvValue } from "pvwire";
import { useConnection, usePv, usePvSelector } from "pvwire/react";

import { formatCount } from "pvwire/widgets";

const CELLS = 1000;

const SELECTION =
  "{ value { string } status { severity } connection { state connected unresponsive } }";

/** The result of SELECTION. */
interface CellData {
  readonly value: Pick<PvValue, "string"> | null;
  readonly status: Pick<PvStatus, "severity">;
  readonly connection: Pick<PvConnection, "state" | "connected" | "unresponsive">;
}

export interface ThousandPvsProps {
  readonly client: PvClient;
  readonly prefix: string;
}

export function ThousandPvs({ client, prefix }: ThousandPvsProps): ReactNode {
  const names = useMemo(
    () =>
      Array.from({ length: CELLS }, (_, index) => `${prefix}:N${String(index).padStart(4, "0")}`),
    [prefix],
  );
  return (
    <section className="panel thousand" aria-label="1,000 PVs at 10 Hz">
      <h2>1,000 PVs at 10 Hz</h2>
      <Summary client={client} names={names} />
      <div className="cells" role="list" aria-label="Counters">
        {names.map((name) => (
          <Cell key={name} name={name} />
        ))}
      </div>
    </section>
  );
}

const Cell = memo(function Cell({ name }: { readonly name: string }) {
  const pv = usePv<CellData>(name, SELECTION);
  // An alarm describes the present: a disconnected PV has no alarm.
  const isPresent = pv?.connection.connected === true && !pv.connection.unresponsive;
  return (
    <span
      className="cell"
      role="listitem"
      title={name}
      data-pv={name}
      data-state={pv?.connection.state ?? "connecting"}
      data-severity={isPresent ? (pv.status.severity ?? undefined) : undefined}
    >
      {pv?.value?.string ?? "–"}
    </span>
  );
});

interface Measured {
  readonly updatesPerSecond: number;
  readonly paintsPerSecond: number;
  readonly skipped: number;
}

/** Number of connected PVs, and the updates received for these PVs only. */
function Summary({
  client,
  names,
}: {
  readonly client: PvClient;
  readonly names: readonly string[];
}) {
  const [measured, setMeasured] = useState<Measured>();
  // Not measured: it changes with the cells.
  const connected = usePvSelector(
    names,
    "{ connection { connected } }",
    (pvs) => pvs.filter((pv) => pv?.connection.connected === true).length,
  );
  const connection = useConnection();
  useEffect(() => measureEverySecond(client, names, setMeasured), [client, names]);
  if (connection.state !== "open") {
    return <p className="summary">No measurement without the relay</p>;
  }
  if (measured === undefined) {
    return <p className="summary">Measuring…</p>;
  }
  return (
    <p className="summary" data-summary="thousand">
      <strong>{formatCount(connected)}</strong> of {formatCount(names.length)} connected
      {" · "}
      <strong>{formatCount(measured.updatesPerSecond)}</strong> updates/s
      {" · "}
      <strong>{formatCount(measured.skipped)}</strong> skipped
      {" · "}
      <strong>{formatCount(measured.paintsPerSecond)}</strong> screen frames/s
    </p>
  );
}

/** Calls `onMeasured` once a second until the returned function is called. */
function measureEverySecond(
  client: PvClient,
  names: readonly string[],
  onMeasured: (measured: Measured) => void,
): () => void {
  let paints = 0;
  let animation = requestAnimationFrame(function count() {
    paints += 1;
    animation = requestAnimationFrame(count);
  });
  let before = { atMs: performance.now(), updates: receivedOf(client, names).updates };
  const timer = window.setInterval(() => {
    const { updates, skipped } = receivedOf(client, names);
    const now = { atMs: performance.now(), updates };
    const seconds = (now.atMs - before.atMs) / 1000;
    onMeasured({
      // Counts restart with each connection to the relay.
      updatesPerSecond: Math.max(0, now.updates - before.updates) / seconds,
      paintsPerSecond: paints / seconds,
      skipped,
    });
    before = now;
    paints = 0;
  }, 1000);
  return () => {
    window.clearInterval(timer);
    cancelAnimationFrame(animation);
  };
}

function receivedOf(client: PvClient, names: readonly string[]) {
  let updates = 0;
  let skipped = 0;
  for (const name of names) {
    const inspection = client.inspect(name);
    updates += inspection?.updatesReceived ?? 0;
    skipped += inspection?.skipped ?? 0;
  }
  return { updates, skipped };
}
