/**
 * How long tests wait for something that must happen: longer than it takes on a busy machine, so
 * that only a failure reaches it.
 */
export const DEADLINE_MS = 30_000;
