/**
 * The widgets' style sheet, adopted by the documents and shadow trees that have an element. Its parts
 * come with the widgets that need them.
 */

/** The parts in their order, which is that of `widgets.css`; missing ones are not loaded yet. */
const parts: Record<"base" | "plot" | "input" | "display" | "last", string> = {
  base: "",
  plot: "",
  input: "",
  display: "",
  last: "",
};

let sheet: CSSStyleSheet | undefined;

/** Adds parts to the style sheet of all elements. */
export function addStyles(added: Partial<typeof parts>): void {
  Object.assign(parts, added);
  sheet?.replaceSync(Object.values(parts).join("\n"));
}

/** Styles an element wherever it is; the document has the colours for all shadow trees in it. */
export function applyStyles(element: Element): void {
  if (sheet === undefined) {
    sheet = new CSSStyleSheet();
    addStyles({});
    const forced = matchMedia("(forced-colors: active)");
    const load = (): void => {
      if (!forced.matches) return;
      import("../widgets/css/forced_colours.css?inline").then(
        ({ default: last }) => {
          addStyles({ last });
        },
        // Without the file the browser's own forced colours still apply.
        () => undefined,
      );
    };
    forced.addEventListener("change", load);
    load();
  }
  for (const tree of [element.ownerDocument, element.getRootNode()] as DocumentOrShadowRoot[]) {
    if (!tree.adoptedStyleSheets.includes(sheet)) tree.adoptedStyleSheets.push(sheet);
  }
}
