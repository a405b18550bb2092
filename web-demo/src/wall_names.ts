/** Which PVs does the wall show? Made by the relay, so that no IOC with so many is needed. */

export const WALL_NAMES: readonly string[] = Array.from(
  { length: 5000 },
  (_, index) => `sim://sine(${String(5 + (index % 60))},amplitude=9,offset=${String(index % 977)})`,
);
