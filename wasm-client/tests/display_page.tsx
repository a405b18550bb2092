/** A page with a display on it, for tests: opens one, finds its widgets, types and presses. */

import { beforeEach, expect } from "vitest";

import { Display, type DisplayNote, type DisplayProps } from "../ts/display/index.js";
import "../ts/display/display.css";
import { page, relay, show, until } from "./widget_page.js";

/** The files by their names, without folders. */
export const FILES: Record<string, string> = {};

/** What isn't shown. */
export let notes: readonly DisplayNote[] = [];
const onNotes = (now: readonly DisplayNote[]): void => {
  notes = now;
};
beforeEach(() => {
  notes = [];
});

export const load = async (address: string): Promise<string> => {
  const text = FILES[address.replace(/^.*\//, "")];
  if (text === undefined) throw new Error("HTTP status 404");
  return await Promise.resolve(text);
};

export const display = (inside: string, version = "2.0.0"): string =>
  `<display version="${version}"><name>Test $(P=)</name>${inside}</display>`;

let opened = 0;

/** Shows a display of these widgets, in place of the one before. */
export async function open(
  inside: string,
  props: Partial<DisplayProps> = {},
  version?: string,
): Promise<void> {
  FILES["main.bob"] = display(inside, version);
  opened += 1;
  show(<Display key={opened} file="/screens/main.bob" load={load} onNotes={onNotes} {...props} />);
  await when(() => page.querySelector(".pvwire-display-sheet") !== null);
}

/** Waits until something holds. */
export const when = async (holds: () => boolean): Promise<void> => {
  await until(() => {
    expect(holds()).toBe(true);
  });
};

export const box = (name: string): HTMLElement =>
  page.querySelector(`[data-name="${name}"]`) as HTMLElement;
export const isShown = (name: string): boolean =>
  page.querySelector(`[data-name="${name}"]`) !== null;
export const part = <E extends HTMLElement>(name: string, selector: string): E =>
  box(name).querySelector(selector) as E;
export const value = (name: string): string =>
  box(name).querySelector('[data-part="value"]')?.textContent ?? "";
export const pv = (type: string, name: string, inside = ""): string =>
  `<widget type="${type}"><name>${type}</name><pv_name>${name}</pv_name>${inside}</widget>`;

/** The line with the outcomes of puts. */
export const status = (): string => page.querySelector('[role="status"]')?.textContent ?? "";
/** The values of all puts. */
export const sent = (): unknown[] => relay.puts.map(({ value: put }) => put);

/** Changes what a field has, as an operator does. React doesn't see a value that is set through the element itself. */
export function fill(input: HTMLInputElement, text: string): void {
  const own = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  own?.set?.call(input, text);
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

export function press(element: Element, key: string, more: KeyboardEventInit = {}): void {
  const event = { key, bubbles: true, cancelable: true, ...more };
  element.dispatchEvent(new KeyboardEvent("keydown", event));
}
