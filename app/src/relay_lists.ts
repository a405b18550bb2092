/** Lists that the relay keeps for its user, where its operator gives a folder for them. */

import type { Lists } from "./stored";

const TIMEOUT_MS = 5000;

/** Sends a request; resolves with all lists of the user then, or `undefined` from a relay that keeps none. */
async function lists(path: string, options: RequestInit = {}): Promise<Lists | undefined> {
  // Behind a proxy the relay may be at a path.
  const answer = await fetch(`saved${path}`, {
    ...options,
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return ((await answer.json()) as { readonly lists: Lists | null }).lists ?? undefined;
}

export const relayLists = (): Promise<Lists | undefined> => lists("");

export const saveOnRelay = (title: string, names: readonly string[]): Promise<Lists | undefined> =>
  lists(`/${encodeURIComponent(title)}`, { method: "PUT", body: JSON.stringify({ names }) });

export const removeFromRelay = (title: string): Promise<Lists | undefined> =>
  lists(`/${encodeURIComponent(title)}`, { method: "DELETE" });
