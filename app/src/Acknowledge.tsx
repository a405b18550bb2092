/**
 * Acknowledges a record's alarm by Channel Access: `.ACKS` has the highest severity that is not acknowledged yet, and a put
 * of it acknowledges it for all programs that show it. PVs that aren't records have no such field.
 */

import { useState, type ReactNode } from "react";
import { t, type PvConnection, type PvStatus, type PvValue } from "pvwire";
import { usePut, usePv, usePvs } from "pvwire/react";
import { formatClock } from "pvwire/widgets";

import { recordOf } from "./pasted";

const SELECTION = "{ value { number string } connection { connected } }";

interface Field {
  readonly value: Pick<PvValue, "number" | "string"> | null;
  readonly connection: Pick<PvConnection, "connected">;
}

/** Access to the record: by the field itself an IOC lets no client write. */
const ACCESS = "{ status { writable } }";

interface Access {
  readonly status: Pick<PvStatus, "writable">;
}

/** The name of the field; `undefined` for names that can't be those of a record. */
function fieldOf(name: string): string | undefined {
  const [, scheme, plain = ""] = /^(?:([a-z]+):\/\/)?(.*)$/s.exec(name) ?? [];
  if ((scheme !== undefined && scheme !== "ca") || /^=|[{"\s]/.test(plain)) return undefined;
  return `ca://${recordOf(plain)}.ACKS`;
}

/** More fields than a page reads of PVs that are in no alarm. */
const MAX_READ = 500;

/** The severities of alarms that are over and were not acknowledged, by the names of PVs. Reads the first of them only. */
export function useUnacknowledged(names: readonly string[]): ReadonlyMap<string, string> {
  const read = names.slice(0, MAX_READ);
  const pvs = usePvs<Field>(read.map(fieldOf), SELECTION);
  return new Map(
    read.flatMap((name, at) => {
      const { connection, value } = pvs[at] ?? {};
      const waits = connection?.connected === true && (value?.number ?? 0) > 0;
      return waits ? [[name, value?.string ?? ""] as const] : [];
    }),
  );
}

interface AcknowledgeProps {
  readonly name: string;
  readonly isLocked: boolean;
  /** The record is in alarm now, or was before. */
  readonly hasAlarm: boolean;
}

export function Acknowledge({ hasAlarm, isLocked, name }: AcknowledgeProps): ReactNode {
  const field = fieldOf(name);
  const pv = usePv<Field>(hasAlarm ? field : undefined, SELECTION);
  const access = usePv<Access>(name, ACCESS);
  const { error, put, state } = usePut(field);
  // When this page acknowledged, and whether the record has confirmed it since.
  const [done, setDone] = useState({ atMs: 0, isSeen: false });
  const waiting = pv?.connection.connected === true ? pv.value?.number : undefined;
  if (pv === undefined || waiting == null) return null;
  if (waiting === 0 && done.atMs > 0 && !done.isSeen) setDone({ ...done, isSeen: true });
  // The alarm has come again.
  if (waiting !== 0 && done.isSeen) setDone({ atMs: 0, isSeen: false });
  if (waiting === 0) {
    return (
      <span className="alarm-ack" role="status">
        {done.atMs > 0 ? t`Acknowledged ${formatClock(done.atMs)}` : t`Nothing to acknowledge`}
      </span>
    );
  }
  if (access?.status.writable === false) return null;
  return (
    <span className="alarm-ack">
      <button
        type="button"
        aria-label={t`Acknowledge ${name}`}
        title={
          isLocked
            ? t`This page is read-only`
            : t`For all who watch this record: its alarms up to ${pv.value?.string ?? ""} are known`
        }
        disabled={isLocked || state === "pending"}
        onClick={() => {
          void put(waiting).then((result) => {
            if (result.ok) setDone({ atMs: Date.now(), isSeen: false });
          });
        }}
      >
        {t`Acknowledge`}
      </button>
      {error !== undefined && (
        <span role="status">
          {error.mayBeWritten ? t`Perhaps acknowledged` : t`Not acknowledged`}: {error.message}
        </span>
      )}
    </span>
  );
}
