/** The demo's wall, alone on a page. */

import { createRoot } from "react-dom/client";
import { createClient } from "pvwire";
import "pvwire/widgets.css";

import { Wall } from "../../../web-demo/src/Wall";
import { WALL_NAMES } from "../../../web-demo/src/WallCell";
import "../../../web-demo/src/style.css";

export interface WallTotals {
  readonly updates: number;
  readonly paints: number;
}

/** Shows it; the returned function tells what happened so far. */
export function showWall(url: string): () => WallTotals {
  const client = createClient({ url });
  let paints = 0;
  requestAnimationFrame(function count() {
    paints += 1;
    requestAnimationFrame(count);
  });
  createRoot(document.getElementById("root") as HTMLElement).render(<Wall client={client} />);
  const received = (name: string): number => client.inspect(name)?.updatesReceived ?? 0;
  return () => ({ paints, updates: WALL_NAMES.reduce((sum, name) => sum + received(name), 0) });
}
