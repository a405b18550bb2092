/** The app in another language: a file of its texts changes all that it says, and nothing of what PVs say. */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

import type { Page } from "@playwright/test";
import ts from "typescript";

import { languageOf, parseRoute } from "../../app/src/route";
import { ROOT } from "../../testbed/ts/paths";
import { expect, test, type AppPage } from "../fixtures/app_page";

const ENGLISH = path.join(ROOT, "app/public/languages/en.json");

/** Where the app and the widgets that it shows mark their texts with `t`. */
const FOLDERS = ["app/src", "wasm-client/ts/plots", "wasm-client/ts/widgets"];

/** A text as it is a key of a language's file: `{1}` stands for its first value. */
function keyOf(template: ts.TemplateLiteral): string {
  if (ts.isNoSubstitutionTemplateLiteral(template)) return template.text;
  const { head, templateSpans } = template;
  return templateSpans.reduce(
    (text, { literal }, at) => `${text}{${String(at + 1)}}${literal.text}`,
    head.text,
  );
}

/** The file of the English texts that the sources need, in their order there. */
function englishFile(): string {
  const texts: Record<string, string> = {};
  const visit = (node: ts.Node): void => {
    if (ts.isTaggedTemplateExpression(node) && node.tag.getText() === "t") {
      const key = keyOf(node.template);
      texts[key] = key;
    }
    ts.forEachChild(node, visit);
  };
  for (const folder of FOLDERS) {
    const names = readdirSync(path.join(ROOT, folder), { encoding: "utf8", recursive: true });
    for (const name of names.filter((each) => /\.tsx?$/.test(each)).sort()) {
      const text = readFileSync(path.join(ROOT, folder, name), "utf8");
      visit(ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true));
    }
  }
  return `${JSON.stringify(texts, null, 2)}\n`;
}

test.use({ still: true });

test("the list of English texts is that of the sources", () => {
  if (test.info().config.updateSnapshots === "all") writeFileSync(ENGLISH, englishFile());
  // With --update-snapshots it is written.
  expect(readFileSync(ENGLISH, "utf8")).toBe(englishFile());
});

/** Opens a page in a language whose texts are the English ones in brackets. */
async function openInBrackets(app: AppPage, hash: string): Promise<void> {
  const english = JSON.parse(readFileSync(ENGLISH, "utf8")) as Record<string, string>;
  const texts = Object.fromEntries(Object.keys(english).map((text) => [text, `⟦${text}⟧`]));
  await app.page.route("**/languages/xx.json", (route) => route.fulfill({ json: texts }));
  await app.page.goto(`${app.url}${hash}${hash.includes("?") ? "&" : "?"}lang=xx`);
  await expect(app.page.getByText("⟦Relay connected⟧")).toBeVisible();
}

/** All that the page says and that isn't in brackets. */
const outsideOfBrackets = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    let open = 0;
    const rest = (text: string): string => {
      let left = "";
      for (const character of text) {
        if (character === "⟦") open += 1;
        if (open === 0) left += character;
        if (character === "⟧") open -= 1;
      }
      return left.trim();
    };
    const texts = [rest(document.title)];
    for (const element of document.querySelectorAll("#root *")) {
      for (const name of ["aria-label", "title", "placeholder", "alt"]) {
        texts.push(rest(element.getAttribute(name) ?? ""));
      }
    }
    const root = document.getElementById("root") ?? document.body;
    const nodes = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    // A text in brackets may go over several nodes.
    while (nodes.nextNode() !== null) texts.push(rest(nodes.currentNode.nodeValue ?? ""));
    return [...new Set(texts)].filter((text) => /[A-Za-z]{2}/.test(text));
  });

/** What PVs, programs and standards say. */
const DATA = new RegExp(
  [
    /– pvwire|pvwire-relay .*|.*(?:SR:|127\.0\.0\.1|localhost).*|10? min|[kM]B\/s|ms|m?A|open/,
    /caget|curl|Python|React|JSON|NO_ALARM|INVALID UDF|Float64|Enum|nan K|262\.35 mA/,
    /Stored beam current|Operating mode|Cavity temperature|Message from the control room/,
    /(?:\d )?(?:Top-up|User beam|Machine study|Injection|Beam dump)(?: · .*)?|Beam available to users/,
  ]
    .map(({ source }) => `^(?:${source})$`)
    .join("|"),
  "s",
);

const NAMES = "SR:RING:CURRENT,SR:RING:MODE,SR:CRYO:TEMP,SR:OP:MESSAGE,SR:MISSING";

/** The pages, and a text of each that comes last. */
const PAGES: readonly (readonly [hash: string, text: string])[] = [
  ["#/", "⟦Any PV by its name⟧"],
  ["#/pv/SR:RING:CURRENT", "⟦About this PV⟧"],
  ["#/pv/SR:RING:MODE", "⟦Fields of the record⟧"],
  ["#/pv/SR:MISSING", "⟦The relay knows no similar name.⟧"],
  [`#/table?pvs=${NAMES}`, "⟦Not found · still searching⟧"],
  [`#/plots?limits=1&pvs=${NAMES}`, "⟦Not found · still searching⟧"],
  [`#/alarms?pvs=${NAMES}`, "⟦Not found · still searching⟧"],
  [`#/snapshots?pvs=${NAMES}`, "⟦Without a value now: 1⟧"],
  ["#/displays", "⟦Displays⟧"],
  ["#/health", "⟦Round trip⟧"],
];

for (const [hash, text] of PAGES) {
  test(`the page ${hash.split("?")[0] ?? ""} says nothing that a language's file lacks`, async ({
    app,
  }) => {
    await openInBrackets(app, hash);
    await expect(app.page.getByText(text).first()).toBeAttached();
    const rest = await outsideOfBrackets(app.page);
    expect(rest.filter((each) => !DATA.test(each))).toEqual([]);
  });
}

test("plurals are the language's, what its file lacks is English, and links keep it", async ({
  app: { page, url },
}) => {
  const texts = {
    "{1} PVs": { few: "{1} kanály", other: "{1} kanálů" },
    "{1} of {2} · times in {3}": "{1} z {2} · čas {3}",
    Table: "Tabulka",
  };
  await page.route("**/languages/cs.json", (route) => route.fulfill({ json: texts }));
  await page.goto(`${url}#/table?lang=cs&utc=1&pvs=SR:RING:CURRENT,SR:RING:MODE,SR:CRYO:TEMP`);
  await expect(page.getByText("3 z 3 kanály · čas UTC")).toBeVisible();
  await expect(page.locator("html")).toHaveAttribute("lang", "cs");
  await expect(page.getByRole("heading", { name: "Tabulka", exact: true })).toBeVisible();
  await page.getByRole("link", { name: "Alarms" }).click();
  await expect(page.getByText(/No alarm among|INVALID/).first()).toBeVisible();
  expect(new URL(page.url()).hash).toContain("lang=cs");
});

test("without a file for it the app is in English", async ({ app }) => {
  await app.open("#/pv/SR:RING:CURRENT?lang=none");
  await expect(app.value).toHaveText("262.35 mA");
});

test("the language is the link's, or the browser's first one that the app has", () => {
  Object.assign(globalThis, { LANGUAGES: ["cs", "de", "en", "pt-BR"] });
  const of = (hash: string, ...languages: string[]): string =>
    languageOf(languages, parseRoute(hash));
  expect(of("#/", "fr-FR", "de-AT", "en")).toBe("de");
  expect(of("#/", "pt-BR")).toBe("pt-BR");
  expect(of("#/", "en-GB", "de")).toBe("en");
  expect(of("#/", "fr")).toBe("en");
  expect(of("#/table?lang=cs", "de")).toBe("cs");
});
