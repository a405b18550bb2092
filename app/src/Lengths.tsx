/** Chooses the length of a time axis. */

import type { ReactNode } from "react";

const LENGTHS = [
  ["10 s", 10],
  ["1 min", 60],
  ["10 min", 600],
  ["1 h", 3600],
  ["8 h", 28_800],
  ["1 d", 86_400],
] as const;

/** In seconds. */
export const DEFAULT_LENGTH = 600;

interface LengthsProps {
  readonly label: string;
  /** In seconds; `undefined` if none is chosen. */
  readonly chosen: number | undefined;
  readonly choose: (seconds: number) => void;
}

export function Lengths({ choose, chosen, label }: LengthsProps): ReactNode {
  return (
    <div className="choices" role="group" aria-label={label}>
      {LENGTHS.map(([title, seconds]) => (
        <button
          key={title}
          type="button"
          aria-pressed={seconds === chosen}
          onClick={() => {
            choose(seconds);
          }}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
