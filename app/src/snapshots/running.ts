/**
 * Restores and dry runs, by snapshot. A restore goes on while another page or snapshot is shown, and its outcomes are
 * there when its snapshot is shown again.
 */

import { useSyncExternalStore } from "react";

import type { Outcome } from "./restore";

export interface Run {
  readonly outcomes: ReadonlyMap<string, Outcome>;
  /** What has become of it. */
  readonly message: string;
  /** Ends the restore that is writing. */
  readonly stop: (() => void) | undefined;
}

const NONE: Run = { outcomes: new Map(), message: "", stop: undefined };

const runs = new Map<string, Run>();
const listeners = new Set<() => void>();

/** Asks before the tab is closed while values are written: their outcomes would be lost. */
function warn(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

const isWriting = (): boolean => [...runs.values()].some(({ stop }) => stop !== undefined);

export function setRun(id: string, change: Partial<Run>): void {
  runs.set(id, { ...(runs.get(id) ?? NONE), ...change });
  if (isWriting()) window.addEventListener("beforeunload", warn);
  else window.removeEventListener("beforeunload", warn);
  for (const listener of listeners) listener();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** A part of the newest run of a snapshot; renders when that part changes. */
export const useRun = <K extends keyof Run>(id: string, part: K): Run[K] =>
  useSyncExternalStore(listen, () => (runs.get(id) ?? NONE)[part]);

/** Whether any snapshot is being restored. */
export const useIsWriting = (): boolean => useSyncExternalStore(listen, isWriting);
