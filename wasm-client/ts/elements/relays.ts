/** The relay of each element. */

/** An element that shows a PV. */
interface Shown extends Element {
  draw(): void;
}

/** All elements that are in a page. */
export const shown = new Set<Shown>();

/** Draws all elements again, because another relay may be theirs. */
export function relaysChanged(): void {
  for (const element of shown) element.draw();
}

/**
 * The addresses of an element's relays: those of the nearest `<pv-relay>` around it, otherwise those
 * of a `<pv-relay>` without elements in it anywhere in the page, otherwise `/ws` on the page's own
 * host.
 */
export function relaysOf(element: Element): string[] {
  // Not by the selector `:has()`, which browsers before 2024 don't know.
  const relay =
    element.closest("pv-relay") ??
    [...document.querySelectorAll("pv-relay")].find((each) => each.childElementCount === 0);
  const urls = relay?.getAttribute("url")?.split(/\s+/).filter(Boolean) ?? [];
  return urls.length > 0 ? urls : ["/ws"];
}
