/** The app in another language than English. */

import { setTexts } from "pvwire";

/** Texts of a language by the English ones; a text whose first value is a number may have one for each plural. */
type Texts = Readonly<
  Record<string, string | Readonly<Partial<Record<Intl.LDMLPluralRule, string>>>>
>;

/** Shows the app in this language, if it has a file for it. A text that the file lacks stays in English. */
export async function setLanguage(tag: string): Promise<void> {
  const answer = await fetch(`languages/${encodeURIComponent(tag)}.json`);
  if (!answer.ok) return;
  const texts = (await answer.json()) as Texts;
  const plurals = new Intl.PluralRules(tag);
  document.documentElement.lang = tag;
  setTexts((parts, ...values) => {
    const english = parts.reduce((text, part, at) => `${text}{${String(at)}}${part}`);
    const found = texts[english];
    const text =
      typeof found === "object" ? (found[plurals.select(Number(values[0]))] ?? found.other) : found;
    return (text ?? english).replace(/\{(\d+)\}/g, (_, at) => String(values[Number(at) - 1]));
  });
}
