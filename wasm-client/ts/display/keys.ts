/** Keys of widgets that write. */

import type { KeyboardEvent } from "react";

/** A held Enter repeats itself, and a button is pressed by each. */
export function pressOnce(event: KeyboardEvent): void {
  if (event.key === "Enter" && event.repeat) event.preventDefault();
}

/** The sign of a step by an arrow key; `undefined` for other keys. */
export const ARROWS: Readonly<Partial<Record<string, 1 | -1>>> = {
  ArrowUp: 1,
  ArrowRight: 1,
  ArrowDown: -1,
  ArrowLeft: -1,
};
