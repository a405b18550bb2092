/** The displays that are open in tabs, with the way back and forward of each. */

export interface Page {
  /** Unique; opening the same file again makes another page. */
  readonly id: number;
  readonly file: string;
  readonly macros: Readonly<Record<string, string>>;
}

interface Tab {
  readonly pages: readonly Page[];
  /** Index of the page that is shown. */
  readonly at: number;
}

export interface Pages {
  readonly tabs: readonly Tab[];
  readonly at: number;
  readonly nextId: number;
}

type PageOf = Pick<Page, "file" | "macros">;

export type Turn =
  | ({ readonly kind: "replace" | "tab" } & PageOf)
  | { readonly kind: "back" | "forward" }
  | { readonly kind: "select" | "close"; readonly tab: number };

/** A way back longer than this is cut. */
const MAX_BACK = 100;
const MAX_TABS = 30;

export function firstPages({ file, macros }: PageOf): Pages {
  return { tabs: [{ pages: [{ id: 0, file, macros }], at: 0 }], at: 0, nextId: 1 };
}

export function presentOf({ at, tabs }: Pages): Page {
  const tab = tabs[at] as Tab;
  return tab.pages[tab.at] as Page;
}

/** Whether there is a page to go to. */
export function waysOf({ at, tabs }: Pages): { readonly back: boolean; readonly forward: boolean } {
  const tab = tabs[at] as Tab;
  return { back: tab.at > 0, forward: tab.at + 1 < tab.pages.length };
}

export function turn(pages: Pages, to: Turn): Pages {
  const { at, nextId, tabs } = pages;
  const tab = tabs[at] as Tab;
  const withTab = (changed: Tab): Pages => ({
    ...pages,
    tabs: tabs.map((each) => (each === tab ? changed : each)),
  });
  switch (to.kind) {
    case "replace": {
      const page: Page = { id: nextId, file: to.file, macros: to.macros };
      const before = tab.pages.slice(0, tab.at + 1).slice(-MAX_BACK);
      return { ...withTab({ pages: [...before, page], at: before.length }), nextId: nextId + 1 };
    }
    case "tab": {
      const same = tabs.findIndex((open) => isSame(open.pages[open.at], to));
      if (same >= 0) return { ...pages, at: same };
      const page: Page = { id: nextId, file: to.file, macros: to.macros };
      const kept = tabs.slice(-MAX_TABS + 1);
      return { tabs: [...kept, { pages: [page], at: 0 }], at: kept.length, nextId: nextId + 1 };
    }
    case "back":
      return tab.at === 0 ? pages : withTab({ ...tab, at: tab.at - 1 });
    case "forward":
      return tab.at + 1 >= tab.pages.length ? pages : withTab({ ...tab, at: tab.at + 1 });
    case "select":
      return tabs[to.tab] === undefined ? pages : { ...pages, at: to.tab };
    case "close": {
      if (tabs.length === 1 || tabs[to.tab] === undefined) return pages;
      const left = tabs.filter((_, index) => index !== to.tab);
      const isBefore = to.tab < at || at === left.length;
      return { ...pages, tabs: left, at: isBefore ? at - 1 : at };
    }
  }
}

function isSame(page: Page | undefined, { file, macros }: PageOf): boolean {
  return page?.file === file && JSON.stringify(page.macros) === JSON.stringify(macros);
}
