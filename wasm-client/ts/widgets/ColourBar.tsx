/** The scale of colours and numbers beside a false-colour image. */

import type { ReactNode } from "react";

import { endTexts } from "./end_texts.js";
import { gradientOf, type Colours } from "./pixels.js";
import type { Range } from "./scale.js";

export interface ColourBarProps {
  readonly map: Colours;
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
