/** The bases of the custom elements: one widget inside the element, with the options of its attributes and the client of its relay. */

import type { ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";

import { PvProvider } from "../react/provider.js";
import { relaysOf, shown } from "./relays.js";
import { applyStyles } from "./style_sheet.js";

/** Options that have a value: widgets take no `undefined`. */
export function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const all = Object.entries(options).filter(([, option]) => option !== undefined);
  return Object.fromEntries(all) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

/** The attributes of one element. */
export class Attributes {
  readonly #element: Element;

  constructor(element: Element) {
    this.#element = element;
  }

  /** The PV's name, and what the widget and screen readers call it. */
  get pv(): { readonly name: string; readonly label: string } {
    const name = this.text("name") ?? "";
    return { name, label: this.text("label") ?? name };
  }

  text(attribute: string): string | undefined {
    return this.#element.getAttribute(attribute) ?? undefined;
  }

  /** A finite number; `undefined` without the attribute or with another text. */
  number(attribute: string): number | undefined {
    const text = this.text(attribute)?.trim() ?? "";
    const number = text === "" ? NaN : Number(text);
    return Number.isFinite(number) ? number : undefined;
  }
}

/** Servers have no elements, and may import this module all the same. */
export const PageElement =
  typeof HTMLElement === "function" ? HTMLElement : (Object as unknown as typeof HTMLElement);

/** Makes an element's widget from its attributes. */
export type Widget = (attributes: Attributes, element: Element) => ReactNode;

/** An element that shows a widget. */
export abstract class WidgetElement extends PageElement {
  /** The attribute without which nothing is shown. */
  protected readonly subject: string = "name";
  readonly #attributes = new Attributes(this);
  #root: Root | undefined;
  #widget: Widget | undefined;

  /** The widget of this kind of element, or its code, which is loaded on demand. */
  protected abstract load(): Widget | Promise<Widget>;

  /** Called by the browser when the element is in a page. */
  connectedCallback(): void {
    // Set before this module was loaded, they hide the setters below.
    for (const [key, value] of Object.entries(this)) {
      if (!(key in (this.constructor.prototype as object))) continue;
      Reflect.deleteProperty(this, key);
      Reflect.set(this, key, value);
    }
    shown.add(this);
    applyStyles(this);
    const loaded = this.#widget ?? this.load();
    if (typeof loaded === "function") {
      this.#widget = loaded;
      this.draw();
      return;
    }
    loaded.then(
      (widget) => {
        this.#widget = widget;
        this.draw();
      },
      (error: unknown) => {
        this.textContent = `A file of pvwire can't be loaded: reload the page. ${String(error)}`;
      },
    );
  }

  /** Called by the browser when the element is no longer in a page. */
  disconnectedCallback(): void {
    // Moved within the page it keeps its widget, with what was typed.
    queueMicrotask(() => {
      if (this.isConnected) return;
      shown.delete(this);
      this.#root?.unmount();
      this.#root = undefined;
    });
  }

  /** Called by the browser when an attribute has changed. */
  attributeChangedCallback(): void {
    this.draw();
  }

  /** Shows the widget with the present attributes; nothing without a subject. */
  draw(): void {
    if (this.#widget === undefined || !shown.has(this)) return;
    if (this.#root === undefined) {
      // What the page shows until this module is loaded.
      this.replaceChildren();
      this.#root = createRoot(this);
    }
    const widget = this.getAttribute(this.subject) && (
      <PvProvider urls={relaysOf(this)}>{this.#widget(this.#attributes, this)}</PvProvider>
    );
    this.#root.render(widget);
  }
}

/** An element that shows the PV of its attribute `name`. */
export abstract class PvElement extends WidgetElement {
  /** The PV. A change ends the subscription of the PV before, and drops what was typed for it. */
  get name(): string {
    return this.getAttribute("name") ?? "";
  }

  /** Shows another PV. */
  set name(name: string) {
    this.setAttribute("name", name);
  }

  /** What the widget and screen readers call the PV. @default the PV's name */
  get label(): string {
    return this.getAttribute("label") ?? this.name;
  }

  /** Changes what the PV is called. */
  set label(label: string) {
    this.setAttribute("label", label);
  }
}
