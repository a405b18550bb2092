/** The state of the app is its address: what is after `#`, which no server sees. */

import { useMemo, useSyncExternalStore } from "react";

export const PAGES = [
  "pv",
  "table",
  "plots",
  "alarms",
  "snapshots",
  "displays",
  "display",
  "health",
] as const;
export type PageName = (typeof PAGES)[number];

export interface Route {
  readonly page: PageName;
  /** The PV of the page `pv`, or the path of the page `display`. */
  readonly name: string;
  /** Macros of the page `display`. */
  readonly macros: Readonly<Record<string, string>>;
  /** The list of the other pages: PVs, and titles of groups (see `groups`). */
  readonly names: readonly string[];
  /** All else, such as how a table is sorted. */
  readonly settings: Readonly<Record<string, string>>;
}

/** As in a link, and legible: names are full of colons. */
const encode = (text: string): string =>
  encodeURIComponent(text).replace(/%(?:3A|2F|24|40)/g, decodeURIComponent);

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A link that was typed by hand.
    return text;
  }
}

/** Whether a page is of one thing, which its path names. */
const isNamed = (page: PageName): boolean => page === "pv" || page === "display";

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [first = "", ...rest] = path.split("/");
  const page = PAGES.find((page) => page === first) ?? "pv";
  const settings: Record<string, string> = {};
  const macros: Record<string, string> = {};
  let names: string[] = [];
  for (const pair of query.split("&").filter(Boolean)) {
    const [key = "", value = ""] = pair.split(/=(.*)/s);
    if (key === "pvs") names = value.split(",").map(decode).filter(Boolean);
    else if (key === "macro") {
      const [macro = "", text = ""] = value.split(/=(.*)/s);
      macros[decode(macro)] = decode(text);
    } else settings[decode(key)] = decode(value);
  }
  const name = isNamed(page) ? decode(rest.join("/")) : "";
  return { page, name, macros, names, settings };
}

export function hrefOf({ macros, name, names, page, settings }: Route): string {
  const pairs = Object.entries(settings).filter(([, value]) => value !== "");
  const query = pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`);
  if (names.length > 0) query.push(`pvs=${names.map(encode).join(",")}`);
  for (const [macro, text] of Object.entries(macros)) {
    query.push(`macro=${encode(macro)}=${encode(text)}`);
  }
  const path = isNamed(page) ? `${page}/${encode(name)}` : page;
  return `#/${path}${query.length > 0 ? `?${query.join("&")}` : ""}`;
}

const listeners = new Set<() => void>();

function listen(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("popstate", listener);
  window.addEventListener("hashchange", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", listener);
    window.removeEventListener("hashchange", listener);
  };
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(listen, () => window.location.hash);
  return useMemo(() => parseRoute(hash), [hash]);
}

/** Settings that stay when another page is opened: the last three are the time of plots and tables. */
const LASTING = ["lang", "utc", "lock", "kiosk", "from", "to", "last"];

/** The languages with a file in `public/languages/`, by their tags. */
declare const LANGUAGES: readonly string[];

/** The language of the link, or the first of the browser's that the app has. */
export function languageOf(languages: readonly string[], { settings }: Route): string {
  const tags = languages.flatMap((tag) => [tag, tag.replace(/-.*/, "")]);
  return settings.lang ?? tags.find((tag) => LANGUAGES.includes(tag)) ?? "en";
}

/** The address of another page, with the settings that stay. */
export function elsewhere(route: Route, change: Partial<Omit<Route, "settings">>): Route {
  const kept = Object.entries(route.settings).filter(([key]) => LASTING.includes(key));
  return { ...route, name: "", macros: {}, settings: Object.fromEntries(kept), ...change };
}

/** Opens an address. What only sorts or filters a page makes no entry in the browser's history. */
export function go(route: Route, { replace = false } = {}): void {
  const href = hrefOf(route);
  if (href === window.location.hash) return;
  if (replace) window.history.replaceState(null, "", href);
  else window.history.pushState(null, "", href);
  for (const listener of listeners) listener();
}

export function setTo(route: Route, settings: Readonly<Record<string, string>>): void {
  go({ ...route, settings: { ...route.settings, ...settings } }, { replace: true });
}

/** Enter takes over what is typed in an input, as leaving the input does. */
export function blurOnEnter(event: {
  readonly key: string;
  readonly currentTarget: HTMLElement;
}): void {
  if (event.key === "Enter") event.currentTarget.blur();
}
