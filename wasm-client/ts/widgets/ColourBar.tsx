/** The scale of colours and numbers beside a false-colour image. */

import type { ReactNode } from "react";

import { gradientOf, type ColourMap } from "./pixels.js";
import { endTexts, type Range } from "./scale.js";

export interface ColourBarProps {
  readonly map: ColourMap;
  readonly range: Range;
}

export function ColourBar({ map, range }: ColourBarProps): ReactNode {
  const [low, high] = endTexts(range);
  return (
    <div className="pvwire-colour-bar" role="img" aria-label={`Colours from ${low} to ${high}`}>
      <span>{high}</span>
      <span className="pvwire-colours" style={{ background: gradientOf(map) }} />
      <span>{low}</span>
    </div>
  );
}
