/** Waits, in tests, until something holds. */

import { vi } from "vitest";

import { DEADLINE_MS } from "../../testbed/ts/deadline.js";

/** Calls `holds` again and again until it doesn't throw, and gives what it returns. */
export async function until<T>(holds: () => T | Promise<T>): Promise<T> {
  return await vi.waitFor(holds, { timeout: DEADLINE_MS });
}
