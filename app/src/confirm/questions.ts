/** Writes that wait for a confirmation, one question after the other. */

import { useSyncExternalStore } from "react";
import type { PutValue } from "pvwire";

export type PutOf = readonly [name: string, value: PutValue];

/** What a user decides: `undefined` if nothing is to be written. */
type Decision = readonly PutOf[] | undefined;

export interface Question {
  readonly id: number;
  readonly puts: readonly PutOf[];
  /** Why every write is confirmed; empty if the operator names these PVs. */
  readonly problem: string;
  readonly decided: Promise<Decision>;
  readonly decide: (decision: Decision) => void;
}

let waiting: readonly Question[] = [];
let questions = 0;
const listeners = new Set<() => void>();

function become(next: readonly Question[]): void {
  waiting = next;
  for (const listener of listeners) listener();
}

/**
 * Shows these writes, and resolves with those that were confirmed. They are others if they were replaced meanwhile:
 * a slider that is moved goes on sending positions.
 */
export function ask(puts: readonly PutOf[], problem: string, replaces: boolean): Promise<Decision> {
  const [[name] = []] = puts;
  const before = replaces
    ? waiting.find((other) => other.puts.length === 1 && other.puts[0]?.[0] === name)
    : undefined;
  if (before !== undefined) {
    become(waiting.map((other) => (other === before ? { ...before, puts } : other)));
    return before.decided;
  }
  let decide: Question["decide"] = () => undefined;
  const decided = new Promise<Decision>((resolve) => {
    decide = resolve;
  });
  questions += 1;
  become([...waiting, { id: questions, puts, problem, decided, decide }]);
  return decided;
}

export function answer(question: Question, isConfirmed: boolean): void {
  question.decide(isConfirmed ? question.puts : undefined);
  become(waiting.filter(({ id }) => id !== question.id));
}

/** Another page is shown: what was to be written there isn't any more. */
function cancelAll(): void {
  for (const question of waiting) answer(question, false);
}

function listen(listener: () => void): () => void {
  if (listeners.size === 0) window.addEventListener("popstate", cancelAll);
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.removeEventListener("popstate", cancelAll);
  };
}

/** The question to show. */
export const useQuestion = (): Question | undefined =>
  useSyncExternalStore(listen, () => waiting[0]);
