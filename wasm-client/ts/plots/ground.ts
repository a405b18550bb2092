/** The colours of the page behind a plot. */

import { useEffect, useState } from "react";

/** Whether an element has light text. The page's `color-scheme` decides, or the application's own colours. */
export function useIsDark(host: { readonly current: HTMLElement | null }): boolean {
  const [isDark, setDark] = useState(false);
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const check = (): void => {
      const [red = 0, green = 0, blue = 0] = getComputedStyle(element).color.match(/[\d.]+/g) ?? [];
      setDark(Number(red) + Number(green) + Number(blue) > 3 * 128);
    };
    const frame = requestAnimationFrame(check);
    // The style sheet's transition of the colour ends in this event.
    element.addEventListener("transitionend", check);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("transitionend", check);
    };
  }, [host]);
  return isDark;
}

/** The text's colour, and that of the ground behind an element, which most elements don't have. */
export function coloursOf(element: Element): { readonly ground: string; readonly text: string } {
  const { color } = getComputedStyle(element);
  for (let each: Element | null = element; each !== null; each = each.parentElement) {
    const { backgroundColor } = getComputedStyle(each);
    if (!/^(?:transparent|rgba\(.*, 0\))$/.test(backgroundColor)) {
      return { ground: backgroundColor, text: color };
    }
  }
  return { ground: "Canvas", text: color };
}
