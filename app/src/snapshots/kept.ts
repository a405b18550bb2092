/** The snapshots that this browser keeps. */

import { useCallback, useEffect, useState } from "react";
import { t } from "pvwire";

import type { Snapshot } from "./snapshot";

const DATABASE = "pvwire-app";
const STORE = "snapshots";

const done = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => {
      resolve(request.result);
    };
    request.onerror = () => {
      reject(request.error ?? new Error(t`the browser's database failed`));
    };
  });

async function inStore<T>(
  mode: IDBTransactionMode,
  use: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T> {
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => {
    opening.result.createObjectStore(STORE, { keyPath: "id" });
  };
  const database = await done(opening);
  try {
    const transaction = database.transaction(STORE, mode);
    // The browser may still undo it, as when the disk is full.
    const kept = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => {
        resolve();
      };
      transaction.onabort = () => {
        reject(transaction.error ?? new Error(t`the browser undid it`));
      };
    });
    const [result] = await Promise.all([done(use(transaction.objectStore(STORE))), kept]);
    return result;
  } finally {
    database.close();
  }
}

const newestFirst = (snapshots: readonly Snapshot[]): readonly Snapshot[] =>
  [...snapshots].sort((one, other) => other.takenMs - one.takenMs);

export interface KeptSnapshots {
  /** The newest first; `undefined` until they are read. */
  readonly all: readonly Snapshot[] | undefined;
  /** Why the browser keeps nothing; empty if it does. */
  readonly problem: string;
  /** Keeps it, in place of one with the same `id`. */
  readonly keep: (snapshot: Snapshot) => Promise<void>;
  readonly remove: (id: string) => Promise<void>;
}

export function useKept(): KeptSnapshots {
  const [all, setAll] = useState<readonly Snapshot[]>();
  const [problem, setProblem] = useState("");
  const fail = (error: unknown): void => {
    const why = error instanceof Error ? error.message : String(error);
    setProblem(t`This browser keeps no snapshots (${why}): save them as files.`);
  };
  useEffect(() => {
    // One may be taken before these are read.
    const add = (read: readonly Snapshot[]): void => {
      setAll((before = []) => {
        const known = new Set(before.map(({ id }) => id));
        return newestFirst([...before, ...read.filter(({ id }) => !known.has(id))]);
      });
    };
    inStore("readonly", (store) => store.getAll() as IDBRequest<Snapshot[]>).then(
      add,
      (error: unknown) => {
        fail(error);
        add([]);
      },
    );
  }, []);
  const change = (id: string, snapshot: Snapshot | undefined): void => {
    setAll((before = []) =>
      newestFirst([
        ...before.filter((each) => each.id !== id),
        ...(snapshot === undefined ? [] : [snapshot]),
      ]),
    );
  };
  const keep = useCallback(async (snapshot: Snapshot) => {
    // It is shown also where the browser stores nothing.
    change(snapshot.id, snapshot);
    await inStore("readwrite", (store) => store.put(snapshot)).catch(fail);
  }, []);
  const remove = useCallback(async (id: string) => {
    change(id, undefined);
    await inStore("readwrite", (store) => store.delete(id)).catch(fail);
  }, []);
  return { all, problem, keep, remove };
}
