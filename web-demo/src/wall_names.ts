/** The PVs of the wall. The relay simulates them, so that no IOC is needed. */

export const WALL_NAMES: readonly string[] = Array.from(
  { length: 5000 },
  (_, index) => `sim://sine(${String(5 + (index % 60))},amplitude=9,offset=${String(index % 977)})`,
);
