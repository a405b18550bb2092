/** The code that paints large displays, which is loaded with the first of them. */

import { createContext } from "react";

import { MANY } from "./sight.js";

/** The text of a display of that many widgets is longer. */
const LEAST_CHARACTERS = 50 * MANY;

type Painting = typeof import("./BandCanvases.js");

/** The canvas of each widget that may be painted, and the code that paints. */
export interface Canvases {
  readonly code: Painting;
  readonly bands: ReturnType<Painting["bandsOf"]>;
}

export const CanvasesContext = createContext<Canvases | undefined>(undefined);

/** `undefined` until the first large display; and if it can't be loaded: then all elements are shown. */
export let painting: Painting | undefined;

/** Loads it if a display with this text may need it. */
export async function preparePainting(text: string): Promise<void> {
  if (painting !== undefined || text.length < LEAST_CHARACTERS) return;
  painting = await import("./BandCanvases.js").catch(() => undefined);
}
