/** The canvases over the widgets of a large display. */

import { useContext, useEffect, useMemo, useRef, useState, type ReactNode } from "react";

import { ScaleContext, useShown } from "./context.js";
import type { Band } from "./painting.js";

export { barPainter, lampPainter, textPainter } from "./painters.js";
export { bandsOf } from "./painting.js";

interface BandCanvasesProps {
  readonly bands: ReadonlyMap<unknown, Band>;
}

/** The values that are painted; readers and searches find the widgets' elements. */
export function BandCanvases({ bands }: BandCanvasesProps): ReactNode {
  const scale = useContext(ScaleContext) ?? 1;
  const [screen, setScreen] = useState(devicePixelRatio);
  useEffect(() => {
    const query = matchMedia(`(resolution: ${String(screen)}dppx)`);
    const update = (): void => {
      setScreen(devicePixelRatio);
    };
    query.addEventListener("change", update);
    return () => {
      query.removeEventListener("change", update);
    };
  }, [screen]);
  const each = useMemo(() => [...new Set(bands.values())], [bands]);
  return each.map((band, at) => <BandCanvas key={at} band={band} ratio={scale * screen} />);
}

function BandCanvas({ band, ratio }: { readonly band: Band; readonly ratio: number }) {
  // Its colours are those of the borders.
  const { palette } = useShown();
  const both = useRef<HTMLDivElement>(null);
  useEffect(() => {
    band.use([...(both.current?.children ?? [])] as HTMLCanvasElement[], ratio);
  }, [band, ratio, palette]);
  return (
    <div ref={both} className="pvwire-display-canvases" aria-hidden="true">
      <canvas />
      <canvas />
    </div>
  );
}
