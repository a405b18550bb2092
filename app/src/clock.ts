/** Renders a component again at intervals. */

import { useEffect, useState } from "react";

/** Renders again at this interval; `undefined`: never. Returns the time of the last rendering. */
export function useClock(everyMs: number | undefined): number {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => {
      setNowMs(Date.now());
    }, everyMs);
    return () => {
      clearInterval(timer);
    };
  }, [everyMs]);
  return nowMs;
}
