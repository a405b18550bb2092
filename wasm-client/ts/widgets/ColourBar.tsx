/** The scale of colours and numbers beside a false-colour image. */

import type { ReactNode } from "react";

import { gradientOf, type ColourMap } from "./pixels.js";

export interface ColourBarProps {
  readonly map: ColourMap;
  readonly range: readonly [number, number];
}

export function ColourBar({ map, range: [low, high] }: ColourBarProps): ReactNode {
  return (
    <div
      className="pvwire-colour-bar"
      role="img"
      aria-label={`Colours from ${textOf(low)} to ${textOf(high)}`}
    >
      <span>{textOf(high)}</span>
      <span className="pvwire-colours" style={{ background: gradientOf(map) }} />
      <span>{textOf(low)}</span>
    </div>
  );
}

const textOf = (number: number): string => String(Number(number.toPrecision(4)));
