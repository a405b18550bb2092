/** Data of another server, polled while the page shows it. */

import { useEffect, useState } from "react";

/** The last answer, and when it arrived. */
export interface Polled<T> {
  /** `undefined` if the server doesn't answer, or not with JSON. */
  readonly said: T | undefined;
  /** By the page's clock; `undefined` until the first attempt has ended. */
  readonly atMs: number | undefined;
}

/** `mayBeAbsent`: if the server doesn't answer at first, it is not asked again. */
export function usePolled<T>(url: string, everyMs: number, mayBeAbsent = false): Polled<T> {
  const [polled, setPolled] = useState<Polled<T>>({ said: undefined, atMs: undefined });
  useEffect(() => {
    const ended = new AbortController();
    let timer: number | undefined;
    const ask = async (): Promise<void> => {
      const said = await fetchJson<T>(url, { signal: ended.signal });
      if (ended.signal.aborted) return;
      setPolled({ said, atMs: performance.now() });
      isThere ||= said !== undefined;
      if (isThere || !mayBeAbsent) timer = window.setTimeout(() => void ask(), everyMs);
    };
    let isThere = false;
    void ask();
    return () => {
      ended.abort();
      window.clearTimeout(timer);
    };
  }, [url, everyMs, mayBeAbsent]);
  return polled;
}

/** The data, or `undefined`: a server without this address may answer with the page itself. */
export async function fetchJson<T>(url: string, options: RequestInit): Promise<T | undefined> {
  try {
    const answer = await fetch(url, { cache: "no-store", ...options });
    const isJson = answer.headers.get("Content-Type")?.startsWith("application/json") ?? false;
    return answer.ok && isJson ? ((await answer.json()) as T) : undefined;
  } catch {
    return undefined;
  }
}
