/** Counts of the page's PVs by connection state and alarm severity, for a page header. */

import { useMemo, useSyncExternalStore } from "react";

import { Client } from "../client/client.js";
import { planSelection, showAll } from "../pv/plan.js";
import type {
  PvClient,
  PvConnection,
  PvConnectionState,
  PvStatus,
  Readable,
  Severity,
} from "../types.js";
import { useClient } from "./provider.js";

/** Counts of all PVs that have listeners on the page. */
export interface PvSummary {
  /** All PVs; a PV that is shown several times counts once. */
  readonly pvs: number;
  /** Number of PVs in each connection state. */
  readonly states: Readonly<Record<PvConnectionState, number>>;
  /** Connected PVs whose server doesn't answer now. */
  readonly unresponsive: number;
  /** Connected PVs whose server answers and that have a value. */
  readonly severities: Readonly<Record<Severity, number>>;
}

/**
 * Counts the page's PVs by state and by severity; renders when a count changes, together with the
 * PVs.
 */
export function usePvSummary(): PvSummary {
  const client = useClient();
  const summary = useMemo(() => summaryOf(client), [client]);
  return useSyncExternalStore(summary.subscribe, summary.getSnapshot, () => NOTHING);
}

/**
 * Names of the PVs that have listeners on the page now, each once: those that a summary counts. `loc://` PVs and
 * formulas are not among them; the inputs of formulas are.
 */
export function listenedNames(client: PvClient): string[] {
  const slots = client instanceof Client ? client.pvs.listened() : [];
  return slots.map(({ name }) => name).filter((name) => !/^(?:loc:|eq:|=)/.test(name));
}

function summaryOf(client: PvClient): Readable<PvSummary> {
  let counted = NOTHING;
  const count = (): boolean => {
    const now = countOf(client);
    const isNew = JSON.stringify(now) !== JSON.stringify(counted);
    if (isNew) counted = now;
    return isNew;
  };
  return {
    subscribe: (listener) => {
      count();
      if (!(client instanceof Client)) return () => undefined;
      return client.pvs.onCounted(() => {
        if (count()) listener();
      });
    },
    getSnapshot: () => counted,
  };
}

const NOTHING: PvSummary = {
  pvs: 0,
  unresponsive: 0,
  states: { connecting: 0, notFound: 0, connected: 0, disconnected: 0, relayLost: 0, refused: 0 },
  severities: { NO_ALARM: 0, MINOR: 0, MAJOR: 0, INVALID: 0 },
};

const SELECTION = "{ connection { state unresponsive } status { severity } }";

interface Shown {
  readonly connection: Pick<PvConnection, "state" | "unresponsive">;
  readonly status: Pick<PvStatus, "severity">;
}

function countOf(client: PvClient): PvSummary {
  const pvs = client instanceof Client && client.pvs;
  if (!pvs || !pvs.loaded) return NOTHING;
  const slots = pvs.listened();
  let unresponsive = 0;
  const states = { ...NOTHING.states };
  const severities = { ...NOTHING.severities };
  const shown = showAll(pvs.core(), planSelection(SELECTION), slots) as Shown[];
  for (const { connection, status } of shown) {
    states[connection.state] += 1;
    // An alarm describes the present: a disconnected PV has no alarm.
    if (connection.unresponsive) unresponsive += 1;
    else if (connection.state === "connected" && status.severity !== null) {
      severities[status.severity] += 1;
    }
  }
  return { pvs: slots.length, states, unresponsive, severities };
}
