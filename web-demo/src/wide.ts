/** The room for plots: on a large screen they are taller, and fill the window. */

import { useSyncExternalStore } from "react";

/** As in style.css. */
const WIDE = window.matchMedia("(min-width: 1900px)");

export function useWide(): boolean {
  return useSyncExternalStore(watch, () => WIDE.matches);
}

/** The window's height, in pixels. */
export function useWindowHeight(): number {
  return useSyncExternalStore(watch, () => window.innerHeight);
}

function watch(listener: () => void): () => void {
  WIDE.addEventListener("change", listener);
  window.addEventListener("resize", listener);
  return () => {
    WIDE.removeEventListener("change", listener);
    window.removeEventListener("resize", listener);
  };
}
