/** An element's attributes as options of its widget. */

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
