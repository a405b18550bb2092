/** The pages, the one that the address asks for, and the room for plots: on a large screen they are taller, and fill the window. */

import { useSyncExternalStore } from "react";

export interface PageSpec {
  readonly id: "machine" | "beamline" | "wall" | "console" | "health";
  readonly title: string;
}

export const PAGES: readonly [PageSpec, ...PageSpec[]] = [
  { id: "machine", title: "Machine status" },
  { id: "beamline", title: "Beamline" },
  { id: "wall", title: "Wall" },
  { id: "console", title: "Console" },
  { id: "health", title: "Health" },
];

/** The page of the address's `#/name`; the first page without a name. */
export function usePage(): PageSpec {
  const hash = useSyncExternalStore(subscribe, () => window.location.hash);
  return PAGES.find(({ id }) => hash === `#/${id}`) ?? PAGES[0];
}

function subscribe(listener: () => void): () => void {
  window.addEventListener("hashchange", listener);
  return () => {
    window.removeEventListener("hashchange", listener);
  };
}

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
