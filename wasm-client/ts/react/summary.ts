/** Counts of the page's PVs by connection state and alarm severity, for a page header. */

import { useMemo, useSyncExternalStore } from "react";

import { Client } from "../client/client.js";
import { SEVERITIES, STATES, unresponsive } from "../pv/fields.js";
import type { PvClient, PvConnectionState, Readable, Severity } from "../types.js";
import { useClient } from "./provider.js";

/** Counts of all PVs that have listeners on the page. */
export interface PvSummary {
  /** All PVs; a PV that is shown several times counts once. */
  readonly pvs: number;
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

const zeros = <K extends string>(names: readonly K[]): Record<K, number> =>
  Object.fromEntries(names.map((name) => [name, 0])) as Record<K, number>;

const NOTHING: PvSummary = {
  pvs: 0,
  unresponsive: 0,
  states: zeros(STATES),
  severities: zeros(SEVERITIES),
};

function countOf(client: PvClient): PvSummary {
  const pvs = client instanceof Client && client.pvs;
  if (!pvs || !pvs.loaded) return NOTHING;
  const slots = pvs.listened();
  const columns = pvs.columns();
  const { severity, state } = columns;
  let silent = 0;
  const [states, severities] = [zeros(STATES), zeros(SEVERITIES)];
  for (const slot of slots) {
    const { index } = slot;
    const name = STATES[state[index] as number] ?? "connecting";
    states[name] += 1;
    if (unresponsive(slot, columns)) {
      silent += 1;
      continue;
    }
    const alarm = SEVERITIES[severity[index] as number];
    // An alarm describes the present: a disconnected PV has no alarm.
    if (name === "connected" && alarm !== undefined) severities[alarm] += 1;
  }
  return { pvs: slots.length, states, unresponsive: silent, severities };
}
