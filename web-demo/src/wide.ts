/** Whether the page is on a large screen, where plots have room to be taller. */

import { useSyncExternalStore } from "react";

/** As in style.css. */
const WIDE = window.matchMedia("(min-width: 1900px)");

export function useWide(): boolean {
  return useSyncExternalStore(watch, () => WIDE.matches);
}

function watch(listener: () => void): () => void {
  WIDE.addEventListener("change", listener);
  return () => {
    WIDE.removeEventListener("change", listener);
  };
}
