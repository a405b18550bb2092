/** Data of another server, polled while the page shows it. */

import { useEffect, useState } from "react";

/** The last answer, and when it arrived. */
export interface Polled<T> {
  /** `undefined` if the server doesn't answer, or not with JSON. */
  readonly data: T | undefined;
  /** By the page's clock; `undefined` until the first attempt has ended. */
  readonly atMs: number | undefined;
}

export function usePolled<T>(url: string, everyMs: number): Polled<T> {
  const [polled, setPolled] = useState<Polled<T>>({ data: undefined, atMs: undefined });
  useEffect(() => {
    const ended = new AbortController();
    let timer: number | undefined;
    const ask = async (): Promise<void> => {
      const data = await fetchJson<T>(url, { signal: ended.signal });
      if (ended.signal.aborted) return;
      setPolled({ data, atMs: performance.now() });
      timer = window.setTimeout(() => void ask(), everyMs);
    };
    void ask();
    return () => {
      ended.abort();
      window.clearTimeout(timer);
    };
  }, [url, everyMs]);
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
