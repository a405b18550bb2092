/** Checks promises about time. */

import { existsSync, readFileSync } from "node:fs";

/** Attempts in which a promise may be kept. */
const ATTEMPTS = 5;
const PRESSURE = "/proc/pressure/cpu";

/**
 * Repeats the attempt, which returns how many milliseconds it took, until one took less than the
 * limit, and returns that time. A busy machine delays some attempts; a slow program delays all.
 * Where programs wait for a core all the time, the limit is twice as long.
 */
export async function within(limitMs: number, attempt: () => Promise<number>): Promise<number> {
  const slow: string[] = [];
  while (slow.length < ATTEMPTS) {
    const busy = watchCores();
    const tookMs = await attempt();
    const allowedMs = limitMs * (1 + busy());
    if (tookMs < allowedMs) return tookMs;
    slow.push(`${tookMs.toFixed(0)} of ${allowedMs.toFixed(0)} ms`);
  }
  throw new Error(`each attempt took too long: ${slow.join(", ")}`);
}

/**
 * Starts to watch the machine's cores. The returned function says for which share of the time since
 * then, 0 to 1, a program waited for a core. It is 0 where the kernel doesn't count that.
 */
export function watchCores(): () => number {
  const [begunMs, before] = [performance.now(), waitedMs()];
  return () => Math.min(1, (waitedMs() - before) / (performance.now() - begunMs));
}

function waitedMs(): number {
  if (!existsSync(PRESSURE)) return 0;
  const total = /^some .*total=(\d+)/m.exec(readFileSync(PRESSURE, "utf8"))?.[1];
  return Number(total ?? 0) / 1000;
}
