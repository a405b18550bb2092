/** The texts that people read: English, unless a page gives other ones. */

/** A value in a text. */
export type TextValue = string | number;

/** Gives a text in another language: the parts of the English text, and the values between them. */
export type Translate = (parts: readonly string[], ...values: readonly TextValue[]) => string;

/** Marks a text that people read, and gives it in the page's language: `` t`${count} PVs` ``. */
export let t: Translate = (raw, ...values) => String.raw({ raw }, ...values);

/**
 * Gives all texts of this package in another language. Call it before anything is shown: texts that are shown stay.
 * What the relay and servers say stays as they say it.
 */
export function setTexts(translate: Translate): void {
  t = translate;
}
